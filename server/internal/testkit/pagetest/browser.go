// Package pagetest runs headless Chromium for the tests of web pages.
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

// limit is the maximum lifetime of a browser. It stops the browser of a test that hangs.
const limit = 5 * time.Minute

// A Console collects the messages on the browser's console, from the page or from the browser.
type Console struct {
	mu    sync.Mutex
	lines []string
}

// Lines returns all messages so far. Each has the form "error: text (address)".
func (c *Console) Lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines)
}

// Browser starts Chromium with a new profile and an empty tab, and stops it at the end of the test.
func Browser(t testing.TB) (context.Context, *Console) {
	t.Helper()
	path := need.Program(t, "chromium", "chromium-browser", "google-chrome", "headless-shell")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		// Chromium creates files and a Unix socket in TMPDIR.
		chromedp.Env("TMPDIR="+nettest.PlainDir(t)),
		// Chromium's sandbox does not work as root, or in most containers. It is not needed,
		// because the tests only open our pages.
		chromedp.NoSandbox,
		chromedp.IgnoreCertErrors, // test servers have self-signed certificates
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	ctx, cancelTime := context.WithTimeout(context.Background(), limit)
	ctx, cancelProcess := chromedp.NewExecAllocator(ctx, options...)
	ctx, cancelTab := chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil { // starts Chromium; a second call would panic
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

// Await waits until a JavaScript expression is true. The test fails after 20 seconds.
func Await(t testing.TB, ctx context.Context, expression string) {
	t.Helper()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression,
		chromedp.WithPollingTimeout(20*time.Second),
		chromedp.WithPollingInterval(50*time.Millisecond))); err != nil {
		t.Fatalf("%s: not so after 20 s: %v", expression, err)
	}
}
