package broadcast_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

// A publisher, and a viewer that joined after the second keyframe.
func Example() {
	ring := broadcast.New()

	var p millrace.Chain
	p.AppendCopy([]byte("[codec] "))
	ring.SetPreamble(&p)
	for _, picture := range []string{"KEY1", "a", "b", "KEY2", "c"} {
		p.AppendCopy([]byte(picture + " "))
		key := strings.HasPrefix(picture, "KEY")
		if err := ring.Publish(&p, broadcast.Frame{Key: key}); err != nil {
			fmt.Println(err)
		}
	}

	viewer := ring.Cursor()
	defer viewer.Close()

	var out millrace.Chain // the send queue owns its shares
	defer out.Release()
	batch, err := viewer.Take(&out)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(batch.Frames, "frames:")
	_, _ = out.WriteTo(os.Stdout)

	_ = ring.Close()
	_, err = viewer.Take(&out)
	fmt.Println("then", err)
	// Output:
	// 2 frames:
	// [codec] KEY2 c then EOF
}

// The loop of a goroutine that serves one viewer.
func ExampleCursor_Next() {
	serve := func(ctx context.Context, w io.Writer, c *broadcast.Cursor) error {
		defer c.Close()
		var out millrace.Chain
		defer out.Release() // the data that the viewer did not read
		for {
			batch, err := c.Next(ctx, &out)
			if err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if batch.Missed.Why != broadcast.NotMissed {
				fmt.Fprintln(w, "missed", batch.Missed)
			}
			if _, err := out.WriteTo(w); err != nil {
				return err
			}
		}
	}

	ring := broadcast.New(broadcast.Latency(50 * time.Millisecond))
	viewer := ring.Cursor()
	var done sync.WaitGroup
	done.Go(func() {
		if err := serve(context.Background(), os.Stdout, viewer); err != nil {
			fmt.Println(err)
		}
	})
	for _, s := range []string{"one ", "two ", "three\n"} {
		var p millrace.Chain
		p.AppendCopy([]byte(s))
		if err := ring.Publish(&p, broadcast.Frame{Key: true}); err != nil {
			fmt.Println(err)
		}
	}
	_ = ring.Close() // the viewer first gets the remaining frames
	done.Wait()
	// Output:
	// one two three
}

// Facts about a frame, from its publisher, are returned with the frame.
func ExampleFrame_info() {
	type sample struct{ lasts time.Duration }
	ring := broadcast.New()
	reader := ring.Cursor(broadcast.BatchFrames(1))
	defer reader.Close()
	for i, s := range []string{"one", "two"} {
		var p millrace.Chain
		p.AppendCopy([]byte(s))
		_ = ring.Publish(&p, broadcast.Frame{Key: true,
			Info: &sample{time.Duration(i+1) * time.Second}})
	}
	_ = ring.Close()
	for {
		var frame millrace.Chain
		batch, err := reader.Next(context.Background(), &frame)
		if err != nil { // io.EOF
			break
		}
		fmt.Printf("%s lasts %v\n", frame.Bytes(), batch.Info.(*sample).lasts)
		frame.Release()
	}
	// Output:
	// one lasts 1s
	// two lasts 2s
}

// One goroutine serves all viewers.
func ExampleRing_Watch() {
	ring := broadcast.New()
	viewers := []*broadcast.Cursor{ring.Cursor(), ring.Cursor()}
	watcher := ring.Watch()
	defer watcher.Stop()

	go func() {
		var p millrace.Chain
		p.AppendCopy([]byte("hello"))
		_ = ring.Publish(&p, broadcast.Frame{Key: true})
		_ = ring.Close()
	}()

	for len(viewers) > 0 {
		<-watcher.C
		open := viewers[:0]
		for _, viewer := range viewers {
			var out millrace.Chain
			batch, err := viewer.Take(&out)
			for ; err == nil && batch.Frames > 0; batch, err = viewer.Take(&out) {
				fmt.Printf("%s\n", out.Bytes())
				out.Release()
			}
			if err != nil { // io.EOF
				viewer.Close()
				continue
			}
			open = append(open, viewer)
		}
		viewers = open
	}
	// Output:
	// hello
	// hello
}

// A viewer that cannot keep up moves to the newest keyframe, and the Batch says so.
func ExampleMissed() {
	ring := broadcast.New()
	viewer := ring.Cursor(broadcast.MaxLagFrames(3))
	defer viewer.Close()
	defer ring.Close()

	for _, s := range []string{"KEY1", "a", "b", "c", "KEY2", "d"} {
		var p millrace.Chain
		p.AppendCopy([]byte(s))
		_ = ring.Publish(&p, broadcast.Frame{Key: strings.HasPrefix(s, "KEY")})
	}
	var out millrace.Chain
	batch, _ := viewer.Take(&out)
	fmt.Printf("%s, missed %v\n", out.Bytes(), batch.Missed)
	out.Release()
	// Output:
	// KEY2d, missed 4 frames, 7 bytes (lag_frames)
}
