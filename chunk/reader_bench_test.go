package chunk_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// sink keeps what is read from being optimised away.
var sink byte

func touch(p []byte) { sink ^= p[0] }

const benchBytes = 16 << 20

// A contender handles some bytes in its own way.
type contender struct {
	name string
	run  func() error
}

// inTurns has each contender handle benchBytes.
func inTurns(b *testing.B, contenders ...contender) {
	b.Helper()
	inTurnsOf(b, benchBytes, contenders...)
}

// inTurnsOf runs the contenders one after the other, each time beginning with another one, because a machine that is shared
// is not the same from one minute to the next. It reports the median speed of each, and the median of how many times as
// fast as the first one it was in the same turn.
func inTurnsOf(b *testing.B, bytes float64, contenders ...contender) {
	b.Helper()
	took := make([][]float64, len(contenders))
	for turn := 0; b.Loop(); turn++ {
		for i := range contenders {
			i = (i + turn) % len(contenders)
			start := time.Now()
			if err := contenders[i].run(); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start).Seconds())
		}
	}
	b.ReportMetric(0, "ns/op") // all of them together say nothing
	for i, c := range contenders {
		ratios := make([]float64, len(took[i]))
		for turn, t := range took[i] {
			ratios[turn] = took[0][turn] / t
		}
		b.ReportMetric(bytes/1e6/median(took[i]), c.name+"-MB/s")
		if i > 0 {
			b.ReportMetric(median(ratios), c.name+"-x-"+contenders[0].name)
		}
	}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// loop is a hand-written loop with a buffer of 64 KiB, which most programs have.
func loop(src io.Reader, work func([]byte)) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			work(buf[:n])
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// inChunks does the same with a Reader.
func inChunks(b *testing.B, src io.Reader, work func([]byte), opts ...chunk.ReaderOption) error {
	r := chunk.NewReader(src, opts...)
	defer r.Close()
	for p, err := range r.Chunks(b.Context()) {
		if err != nil {
			return err
		}
		work(p)
	}
	return nil
}

// BenchmarkReaderFile reads a file that is in the page cache.
func BenchmarkReaderFile(b *testing.B) {
	line := []byte("a line of sixty-four bytes, a line of sixty-four bytes, a line,\n")
	path := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(path, bytes.Repeat(line, benchBytes/len(line)), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	rewound := func() *os.File {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			b.Fatal(err)
		}
		return f
	}
	for name, work := range map[string]func([]byte){
		"nothing": touch,
		"crc32":   func(p []byte) { sink ^= byte(crc32.ChecksumIEEE(p)) },
		"sha256":  func(p []byte) { s := sha256.Sum256(p); sink ^= s[0] },
	} {
		b.Run(name, func(b *testing.B) {
			inTurns(b,
				contender{"loop", func() error { return loop(rewound(), work) }},
				contender{"chunks", func() error { return inChunks(b, rewound(), work) }},
				contender{"lines", func() error { return inChunks(b, rewound(), work, chunk.At(chunk.Lines())) }},
				contender{"ahead", func() error { return inChunks(b, struct{ io.Reader }{rewound()}, work) }})
		})
	}
}

// BenchmarkReaderAhead has a source and a consumer that both wait, as a disk and a network do.
func BenchmarkReaderAhead(b *testing.B) {
	const each, reads = 200 * time.Microsecond, 50
	work := func([]byte) { time.Sleep(each) }
	b.Run("loop", func(b *testing.B) {
		for b.Loop() {
			loop(&slowSource{left: reads, each: each}, work)
		}
	})
	b.Run("chunks", func(b *testing.B) {
		for b.Loop() {
			inChunks(b, &slowSource{left: reads, each: each}, work)
		}
	})
}

// scanLines looks at each line as most programs do.
func scanLines(in []byte) error {
	s := bufio.NewScanner(bytes.NewReader(in))
	s.Buffer(make([]byte, 64<<10), 1<<20)
	for s.Scan() {
		sink ^= byte(len(s.Bytes()))
	}
	return s.Err()
}

// BenchmarkLines finds where lines end: a scanner gives each of them, a Reader as many as fit into a chunk.
func BenchmarkLines(b *testing.B) {
	each := func(p []byte) {
		for line := range bytes.Lines(p) {
			sink ^= byte(len(line))
		}
	}
	for _, length := range []int{30, 1000, 100 << 10, 500 << 10} {
		line := append(bytes.Repeat([]byte("x"), length-1), '\n')
		in := bytes.Repeat(line, benchBytes/length+1)[:benchBytes]
		lines := chunk.At(chunk.Lines())
		b.Run(fmt.Sprintf("N%d", length), func(b *testing.B) {
			inTurns(b,
				contender{"scanner", func() error { return scanLines(in) }},
				contender{"chunks", func() error { return inChunks(b, bytes.NewReader(in), touch, lines) }},
				contender{"each-line", func() error { return inChunks(b, bytes.NewReader(in), each, lines) }})
		})
	}
}

// jsonShapes are values as they are found in the wild: an event of a log, a row of numbers, a document of long texts.
func jsonShapes() map[string][]byte {
	event := `{"time":"2026-11-21T10:24:03.123456Z","level":"info","msg":"request served","method":"GET",` +
		`"path":"/files/a.bin","status":200,"bytes":1048576,"ms":3.25,` +
		`"user":{"id":18273,"tags":["a","b \"quoted\""]},"ok":true,"err":null}` + "\n"
	var row bytes.Buffer
	row.WriteString("[")
	for i := range 100 {
		fmt.Fprintf(&row, "%g,", float64(i)*1.25)
	}
	row.WriteString("0]\n")
	sentence := []byte(`a sentence of a long text, in which little happens.\n`)
	text := `{"title":"a document","body":"` + string(bytes.Repeat(sentence, 40)) + `"}` + "\n"
	fill := func(value string) []byte { return bytes.Repeat([]byte(value), benchBytes/len(value)) }
	return map[string][]byte{"events": fill(event), "numbers": fill(row.String()), "texts": fill(text)}
}

// BenchmarkJSON finds where values end. A bufio.Scanner can do it only where they are one a line.
func BenchmarkJSON(b *testing.B) {
	decode := func(in []byte) error {
		d := json.NewDecoder(bytes.NewReader(in))
		for {
			var v json.RawMessage
			if err := d.Decode(&v); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	for name, in := range jsonShapes() {
		b.Run(name, func(b *testing.B) {
			inTurns(b,
				contender{"decoder", func() error { return decode(in) }},
				contender{"chunks", func() error { return inChunks(b, bytes.NewReader(in), touch, chunk.At(chunk.JSON())) }},
				contender{"scanner", func() error { return scanLines(in) }})
		})
	}
}
