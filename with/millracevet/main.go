// Millracevet finds mistakes in programs that use Millrace. It is a tool for go vet:
//
//	go install github.com/millrace-io/millrace/with/millracevet@latest
//	go vet -vettool=$(which millracevet) ./...
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/millrace-io/millrace/with/millracevet/ownership"
)

func main() { unitchecker.Main(ownership.Analyzer) }
