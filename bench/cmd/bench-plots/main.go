// Command bench-plots draws the pictures of the README and of docs/benchmarks.md from the tables that stand there.
package main

import (
	"log"
	"os"

	"github.com/millrace-io/millrace/bench/plots"
)

func main() {
	log.SetFlags(0)
	readme, err := os.ReadFile("../README.md")
	check(err)
	rows, err := plots.Figures(string(readme))
	check(err)
	check(os.WriteFile("../docs/img/ratios.svg", plots.Ratios(rows), 0o644))
	page, err := os.ReadFile("../docs/benchmarks.md")
	check(err)
	bounds, err := plots.Bounds(string(page), plots.BoundsHeading)
	check(err)
	check(os.WriteFile("../docs/img/latency-bound.svg", plots.Curve(bounds, plots.CurveTitle), 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
