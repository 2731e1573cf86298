// Package pagetest runs a headless chromium for the tests of the page.
package pagetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// limit ends a browser that a test has got stuck in.
const limit = 5 * time.Minute

// Console collects the messages of a page to the browser's console, including the browser's own.
type Console struct {
	mu    sync.Mutex
	lines []string
}

// Lines returns the messages so far, one line each: "error: text (address)".
func (c *Console) Lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines)
}

// Browser starts chromium with a new profile and one empty tab; it ends with the test.
func Browser(t testing.TB) (context.Context, *Console) {
	t.Helper()
	path := need.Program(t, "chromium", "chromium-browser", "google-chrome", "headless-shell")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		// Chromium leaves files there, and listens on a Unix socket.
		chromedp.Env("TMPDIR="+nettest.PlainDir(t)),
		// It has none as root and in most containers, and sees nothing but our own page.
		chromedp.NoSandbox,
		chromedp.IgnoreCertErrors, // test servers have self-signed certificates
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	ctx, cancelTime := context.WithTimeout(context.Background(), limit)
	ctx, cancelProcess := chromedp.NewExecAllocator(ctx, options...)
	ctx, cancelTab := chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil { // starts it; a second try would panic
		cancelTab()
		cancelProcess()
		cancelTime()
		t.Fatalf("%s does not start: %v", path, err)
	}
	console := new(Console)
	messages := chromedp.Console(ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			console.mu.Lock()
			console.lines = append(console.lines, fmt.Sprintf("%v (%s)", m, m.URL))
			console.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancelTab()
		cancelProcess()
		cancelTime()
		reader.Wait()
	})
	return ctx, console
}

// Await evaluates a JavaScript expression in the tab until it is true; the test fails when that
// takes too long.
func Await(t testing.TB, ctx context.Context, expression string) {
	t.Helper()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression,
		chromedp.WithPollingTimeout(20*time.Second),
		chromedp.WithPollingInterval(50*time.Millisecond))); err != nil {
		t.Fatalf("%s: not so after 20 s: %v", expression, err)
	}
}
