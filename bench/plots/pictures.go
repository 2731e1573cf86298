package plots

import (
	"os"
	"path/filepath"
)

// Pictures draws every picture that is drawn from a table. They are by the name of their file under docs/img.
func Pictures(docs string) (map[string][]byte, error) {
	benchmarks, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		return nil, err
	}
	redisbuf, err := os.ReadFile(filepath.Join(docs, "redisbuf.md"))
	if err != nil {
		return nil, err
	}
	rows, err := Figures(string(benchmarks))
	if err != nil {
		return nil, err
	}
	bounds, err := Bounds(string(benchmarks), boundsHeading)
	if err != nil {
		return nil, err
	}
	pictures := map[string][]byte{
		"ratios.svg":        Ratios(rows),
		"latency-bound.svg": Curve(bounds, curveTitle),
	}
	for name, of := range map[string]struct {
		caption string
		Quantity
	}{
		"redisbuf-get.svg":      {"GET into memory, 8 goroutines", Time},
		"redisbuf-get-cpu.svg":  {"GET into memory, 8 goroutines", CPU},
		"redisbuf-get-cpu1.svg": {"GET into memory, one goroutine", CPU},
		"redisbuf-set.svg":      {"SET from memory, 8 goroutines", Time},
		"redisbuf-set-cpu.svg":  {"SET from memory, 8 goroutines", CPU},
		"redisbuf-set-cpu1.svg": {"SET from memory, one goroutine", CPU},
	} {
		bars, err := Redis(string(redisbuf), of.caption, of.Quantity)
		if err != nil {
			return nil, err
		}
		pictures[name] = bars.SVG()
	}
	for name, heading := range map[string]string{
		"chunk-files-cpu.svg": "## Files over HTTP",
		"chunk-files-tls.svg": "### The same over TLS",
	} {
		bars, err := Files(string(benchmarks), heading)
		if err != nil {
			return nil, err
		}
		pictures[name] = bars.SVG()
	}
	return pictures, nil
}
