package observe_test

import (
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace/internal/observe"
)

// A load that records into Latencies, and what was seen of it.
func Example() {
	var l observe.Latencies
	r, err := observe.Start(observe.Options{Load: l.Load})
	if err != nil {
		log.Fatal(err)
	}
	for range 100 {
		began := time.Now()
		n := len("the load's work")
		l.Record(time.Since(began), int64(n))
	}
	t, err := r.Stop()
	if err != nil {
		log.Fatal(err)
	}
	var operations, bytes int64
	for _, s := range t.Samples {
		operations += s.Load.Operations
		bytes += s.Load.Bytes
	}
	fmt.Println(operations, "operations,", bytes, "bytes")
	// Output:
	// 100 operations, 1500 bytes
}
