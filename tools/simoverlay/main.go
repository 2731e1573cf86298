// Command simoverlay writes a variant of the Go runtime with which a history of the simulated
// cluster takes the same course each time; see docs/testing.md.
//
//	go run . DIRECTORY && go test -overlay DIRECTORY/overlay.json ...
//
// In a bubble of testing/synctest, this runtime takes all random numbers from a sequence that is
// the same for each bubble: they decide which case a select chooses, and where iterations over maps
// begin. The runtime also does not interrupt a goroutine that runs for long. It is for tests with
// GOMAXPROCS=1, and with GOGC=off, because the garbage collector interrupts goroutines.
//
// If the runtime of the Go version is unlike the one for which the edits were written, simoverlay
// fails.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// An edit replaces one piece of text in a file of the runtime. The text must occur exactly once.
type edit struct{ file, old, new string }

var edits = []edit{
	// The process starts with the same seed each time. It is also the seed for hashes.
	{"rand.go", "\tglobalRand.state.Init(*seed)\n",
		"\tclear(seed[:])\n\tglobalRand.state.Init(*seed)\n"},
	{"rand.go", "\tglobalRand.state.Reseed()\n", ""},
	{"rand.go", "\tmp := getg().m\n\tc := &mp.chacha8\n",
		"\tif getg().m.curg != nil {\n\t\treturn uint64(fixedRand())<<32 | uint64(fixedRand())\n\t}\n" +
			"\tmp := getg().m\n\tc := &mp.chacha8\n"},
	{"rand.go", "// bootstrapRand returns", fixedRand + "// bootstrapRand returns"},
	{"select.go", "j := cheaprandn(uint32(norder + 1))", "j := orderRandn(uint32(norder + 1))"},
	{"time.go", "\t\t\tt.rand = cheaprand()\n", "\t\t\tt.rand = orderRandn(1<<32 - 1)\n"},
	// Goroutines run until they block.
	{"proc.go", "func retake(now int64) uint32 {\n",
		"func retake(now int64) uint32 {\n\tif bubbles && !sched.gcwaiting.Load() {\n" +
			"\t\treturn 0\n\t}\n"},
	// A goroutine that yields runs after all others. Normally this depends on how many goroutines
	// the process has run before.
	{"proc.go", "if pp.schedtick%61 == 0 && ", "if !bubbles && pp.schedtick%61 == 0 && "},
}

const fixedRand = `var (
	bubbles  bool      // there is a bubble, or was one
	bubbleID uint64
	states   [2]uint64 // of the goroutines outside, and in the bubble
)

// orderRandn is cheaprandn for decisions that change the order of goroutines. Other calls of
// cheaprand are for profiles, and happen at any time.
//
//go:nosplit
func orderRandn(n uint32) uint32 {
	if gp := getg().m.curg; gp == nil || gp.bubble == nil {
		return cheaprandn(n)
	}
	return uint32((uint64(fixedRand()) * uint64(n)) >> 32)
}

// fixedRand is cheaprand with a state that is not of a thread, and that begins anew in each bubble.
//
//go:nosplit
func fixedRand() uint32 {
	s := &states[0]
	if b := getg().m.curg.bubble; b != nil {
		s = &states[1]
		if b.id != bubbleID {
			bubbles, bubbleID, *s = true, b.id, 0
		}
	}
	*s += 0xa0761d6478bd642f
	hi, lo := math.Mul64(*s, *s^0xe7037ed1a0b428db)
	return uint32(hi ^ lo)
}

`

var errDownloaded = errors.New(
	"a Go version that the go command has downloaded cannot be changed: install it instead")

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: simoverlay DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "simoverlay:", err)
		os.Exit(1)
	}
}

// write writes the changed files, and overlay.json, which names them, to a directory.
func write(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return err
	}
	root, cache, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if strings.HasPrefix(root, cache) {
		return fmt.Errorf("%s: %w", root, errDownloaded)
	}
	runtime := filepath.Join(root, "src", "runtime")
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	texts := make(map[string]string)
	for _, e := range edits {
		text, ok := texts[e.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(runtime, e.file))
			if err != nil {
				return err
			}
			text = string(b)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return fmt.Errorf("this version of Go has another %s: %d times, want once: %q",
				filepath.Join(runtime, e.file), n, e.old)
		}
		texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	for file, text := range texts {
		to := filepath.Join(dir, file)
		overlay.Replace[filepath.Join(runtime, file)] = to
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), b, 0o644)
}
