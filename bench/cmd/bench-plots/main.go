// Command bench-plots draws the two pictures of the README from the tables of docs/benchmarks.md.
package main

import (
	"log"
	"os"

	"github.com/millrace-io/millrace/bench/plots"
)

func main() {
	log.SetFlags(0)
	page, err := os.ReadFile("../docs/benchmarks.md")
	check(err)
	rows, err := plots.Figures(string(page))
	check(err)
	check(os.WriteFile("../docs/img/ratios.svg", plots.Ratios(rows), 0o644))
	bounds, err := plots.Bounds(string(page), plots.BoundsHeading)
	check(err)
	check(os.WriteFile("../docs/img/latency-bound.svg", plots.Curve(bounds, plots.CurveTitle), 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
