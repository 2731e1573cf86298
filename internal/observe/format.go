package observe

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// A format is where the fields of a tracepoint's record are. It differs between kernels, and the kernel tells it in a file
// of tracefs.
type format map[string]field

// A field is record[offset : offset+size]. 0 ≤ offset, 0 < size, offset+size ≤ maxRecord.
type field struct{ offset, size int }

// maxRecord is PERF_MAX_TRACE_SIZE, the largest record that the kernel has for a tracepoint.
const maxRecord = 8192

// parseFormat reads lines of the kind
//
//	field:char comm[16];	offset:8;	size:16;	signed:0;
//
// and skips all others. Of two fields of one name the first counts.
func parseFormat(file []byte) (format, error) {
	f := make(format)
	for line := range bytes.Lines(file) {
		declaration, rest, ok := bytes.Cut(bytes.TrimSpace(line), []byte(";"))
		declaration, isField := bytes.CutPrefix(declaration, []byte("field:"))
		if !ok || !isField {
			continue
		}
		name := declared(declaration)
		offset, err1 := attribute(rest, "offset:")
		size, err2 := attribute(rest, "size:")
		if name == "" || err1 != nil || err2 != nil {
			return nil, fmt.Errorf("format line %q", line)
		}
		if offset > maxRecord || size > maxRecord-offset {
			return nil, fmt.Errorf("%s is outside of any record", name)
		}
		if _, twice := f[name]; !twice && size > 0 { // a flexible array has no size of its own
			f[name] = field{offset: offset, size: size}
		}
	}
	if len(f) == 0 {
		return nil, errors.New("format without fields")
	}
	return f, nil
}

// declared returns the name in a declaration of C: its last word, without the length of an array.
func declared(declaration []byte) string {
	if i := bytes.LastIndexByte(declaration, '['); i >= 0 && bytes.HasSuffix(declaration, []byte("]")) {
		declaration = declaration[:i]
	}
	declaration = bytes.TrimSpace(declaration)
	return string(declaration[bytes.LastIndexAny(declaration, " *\t")+1:])
}

// attribute returns the number behind name, in a list of attributes that end with semicolons.
func attribute(list []byte, name string) (int, error) {
	_, value, ok := bytes.Cut(list, []byte(name))
	if !ok {
		return 0, errors.New("missing")
	}
	value, _, _ = bytes.Cut(value, []byte(";"))
	n, err := strconv.ParseUint(string(value), 10, 16)
	return int(n), err
}
