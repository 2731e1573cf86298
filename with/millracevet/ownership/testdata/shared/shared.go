package shared

import (
	"io"
	"sync"

	"github.com/millrace-io/millrace"
)

func both(c *millrace.Chain, w io.Writer, x io.Writer) {
	var wg sync.WaitGroup
	wg.Add(2)
	go func() { defer wg.Done(); c.WriteTo(w) }()
	go func() { defer wg.Done(); c.WriteTo(x) }() // want `two goroutines use c at the same time`
	wg.Wait()
}

func local(w io.Writer) {
	var c millrace.Chain
	c.AppendCopy([]byte("text"))
	done := make(chan bool)
	go func() {
		c.WriteTo(w)
		close(done)
	}()
	c.AppendCopy([]byte("more")) // want `two goroutines use c at the same time`
	<-done
	c.Release()
}

func reader(r *millrace.Reader, use func(byte)) error {
	go func() {
		for {
			b, err := r.ReadByte()
			if err != nil {
				return
			}
			use(b)
		}
	}()
	_, err := r.Peek(1) // want `two goroutines use r at the same time`
	return err
}

func goMethod(c *millrace.Chain, w, x io.Writer) {
	go c.WriteTo(w)
	c.WriteTo(x) // want `two goroutines use c at the same time`
}

func work(c *millrace.Chain, w io.Writer) { c.WriteTo(w) }

func workers(ws []io.Writer) {
	var c millrace.Chain
	c.AppendCopy([]byte("text"))
	for _, w := range ws {
		go work(&c, w) // want `two goroutines use c at the same time`
	}
}
