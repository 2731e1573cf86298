package soak

import (
	"flag"
	"os"
	"testing"

	"github.com/millrace-io/millrace/internal/leaktest"
)

// asDouble has the test's binary be a server with the fault that it names.
const asDouble = "MILLRACE_TEST_SOAK_DOUBLE"

func TestMain(m *testing.M) {
	if fault, ok := os.LookupEnv(asDouble); ok {
		double(fault, os.Args[1:])
		return
	}
	flag.Parse()
	// The runs wait more than they work, so that more of them than processors may go on at a time.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	leaktest.Main(m)
}
