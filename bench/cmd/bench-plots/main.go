// Command bench-plots draws the pictures of the docs that show tables, from those tables. It runs in bench/.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/bench/plots"
)

func main() {
	log.SetFlags(0)
	pictures, err := plots.Pictures("../docs")
	if err != nil {
		log.Fatal(err)
	}
	for name, picture := range pictures {
		if err := os.WriteFile(filepath.Join("../docs/img", name), picture, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
