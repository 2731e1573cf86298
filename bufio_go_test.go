package millrace_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/need"
)

// bufioOfMillrace is a package bufio with the Reader and Writer of this package.
const bufioOfMillrace = `package bufio

import (
	"bufio"
	"io"

	"github.com/millrace-io/millrace"
)

type (
	Reader     = millrace.Reader
	Writer     = millrace.Writer
	ReadWriter struct {
		*Reader
		*Writer
	}
)

const DefaultBufSize = 4096

var (
	ErrBufferFull        = bufio.ErrBufferFull
	ErrInvalidUnreadByte = bufio.ErrInvalidUnreadByte
	ErrInvalidUnreadRune = bufio.ErrInvalidUnreadRune
	ErrNegativeCount     = bufio.ErrNegativeCount
	NewScanner           = bufio.NewScanner
)

func NewReader(r io.Reader) *Reader                { return millrace.NewReader(r) }
func NewReaderSize(r io.Reader, size int) *Reader  { return millrace.NewReaderSize(r, size) }
func NewWriter(w io.Writer) *Writer                { return millrace.NewWriter(w) }
func NewWriterSize(w io.Writer, size int) *Writer  { return millrace.NewWriterSize(w, size) }
func NewReadWriter(r *Reader, w *Writer) *ReadWriter { return &ReadWriter{r, w} }
`

// otherThanBufio lists the tests of Go's package bufio that must fail. TestNegativeRead checks the
// text of a panic. TestReaderDiscard expects that no more than Size bytes are buffered.
const otherThanBufio = "TestNegativeRead|TestReaderDiscard"

// TestGoTestsOfBufio runs the tests of Go's package bufio against Reader and Writer. The compiler
// reads them from an overlay, because they are not part of this repository.
func TestGoTestsOfBufio(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)),
		"src/bufio/bufio_test.go"))
	if errors.Is(err, fs.ErrNotExist) {
		need.Missing(t, "the tests of Go's standard library, which some packages of Go omit")
	}
	if err != nil {
		t.Fatal(err)
	}
	source := strings.NewReplacer(
		`. "bufio"`, `. "github.com/millrace-io/millrace/internal/bufio"`,
		`"internal/asan"`, ``,
		`asan.Enabled`, `false`,
	).Replace(string(text))
	dir := t.TempDir()
	overlay := map[string]string{}
	for name, text := range map[string]string{"bufio.go": bufioOfMillrace, "bufio_test.go": source} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := filepath.Abs(filepath.Join("internal/bufio", name))
		if err != nil {
			t.Fatal(err)
		}
		overlay[in] = file
	}
	j, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, j, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "bufio.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-o", binary, "-overlay", file,
		"./internal/bufio")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(binary, "-test.skip", otherThanBufio).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
