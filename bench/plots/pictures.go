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
	get, err := ClientCPU(string(redisbuf), "GET into memory, 8 goroutines")
	if err != nil {
		return nil, err
	}
	set, err := ClientCPU(string(redisbuf), "SET from memory, 8 goroutines")
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"ratios.svg":        Ratios(rows),
		"latency-bound.svg": Curve(bounds, curveTitle),
		"redisbuf-get.svg":  get.SVG(),
		"redisbuf-set.svg":  set.SVG(),
	}, nil
}
