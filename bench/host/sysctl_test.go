//go:build linux

package host

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A kernel has the two limits as Linux has them: each as a ratio or in bytes, where writing one clears the other, and 0
// bytes are refused.
type kernel map[string]string

func (k kernel) read(name string) (string, error) {
	v, ok := k[name]
	if !ok {
		return "", os.ErrNotExist
	}
	return v, nil
}

func (k kernel) write(name, value string) error {
	limit, isBytes := strings.CutSuffix(name, "_bytes")
	if _, ok := k[name]; !ok {
		return &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
	if isBytes && value == "0" {
		return errors.New("invalid argument")
	}
	if k[name] == value {
		return nil // what does not change clears nothing
	}
	k[name] = value
	if isBytes {
		k[limit+"_ratio"] = "0"
	} else if limit, ok := strings.CutSuffix(name, "_ratio"); ok {
		k[limit+"_bytes"] = "0"
	}
	return nil
}

func (k kernel) formers() (all []former) {
	for _, name := range Parameters {
		all = append(all, former{name, k[name]})
	}
	return all
}

func TestPutBack(t *testing.T) {
	for _, was := range [][4]string{
		{"20", "0", "10", "0"}, {"0", "1073741824", "0", "268435456"}, {"0", "8192", "10", "0"}, {"20", "0", "0", "4096"},
		{"0", "0", "0", "0"}, {"20", "0", "0", "0"},
	} {
		for _, changes := range [][]former{
			{},
			{{"vm.dirty_ratio", "80"}, {"vm.dirty_background_ratio", "5"}, {"fs.aio-max-nr", "524288"}},
			{{"vm.dirty_bytes", "214748364"}, {"vm.dirty_background_bytes", "26843545"}},
			{{"vm.dirty_bytes", "214748364"}, {"vm.dirty_ratio", "30"}},
			{{"vm.dirty_ratio", "80"}, {"vm.dirty_bytes", "8192"}},
		} {
			k := kernel{"fs.aio-max-nr": "65536"}
			for i, v := range was {
				k[Parameters[i]] = v
			}
			want, formers := maps.Clone(k), k.formers()
			for _, c := range changes {
				if err := k.write(c.name, c.value); err != nil {
					t.Fatal(err)
				}
			}
			if err := putBack(k, formers); err != nil || !maps.Equal(k, want) {
				t.Errorf("%v changed by %v: %v, want %v; %v", was, changes, k, want, err)
			}
		}
	}
}

func TestPutBackSaysWhatIsNot(t *testing.T) {
	k := kernel{"fs.aio-max-nr": "65536"}
	err := putBack(k, []former{{"vm.gone", "1"}, {"fs.aio-max-nr", "4096"}})
	if err == nil || !strings.Contains(err.Error(), "vm.gone") || k["fs.aio-max-nr"] != "4096" {
		t.Errorf("%v, %v", err, k)
	}
}

func TestDirectory(t *testing.T) {
	d := fake(t, map[string]string{"vm.dirty_ratio": "20"})
	if err := d.write("vm.dirty_ratio", "3"); err != nil {
		t.Fatal(err)
	}
	if v, err := d.read("vm.dirty_ratio"); v != "3" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if err := d.write("vm.no_such", "1"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is not there is written: %v", err)
	}
}

// fake is a directory with these parameters.
func fake(t *testing.T, all map[string]string) directory {
	d := directory(t.TempDir())
	for name, value := range all {
		if err := os.MkdirAll(filepath.Dir(d.path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d.path(name), fmt.Appendln(nil, value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return d
}
