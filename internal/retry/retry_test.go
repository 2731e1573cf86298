package retry_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/leaktest"
	"github.com/millrace-io/millrace/internal/retry"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestWait(t *testing.T) {
	for _, test := range []struct {
		failures    int
		asked       time.Duration
		least, most time.Duration
	}{
		{1, 0, 500 * time.Millisecond, time.Second},
		{2, 0, time.Second, 2 * time.Second},
		{4, 0, 4 * time.Second, 8 * time.Second},
		{50, 0, retry.MaxWait / 2, retry.MaxWait},
		{1, 5 * time.Second, 5 * time.Second, 5 * time.Second},
		{50, time.Second, retry.MaxWait / 2, retry.MaxWait},
	} {
		for range 100 {
			if got := retry.Wait(time.Second, test.failures, test.asked); got < test.least || got > test.most {
				t.Errorf("after %d failures, asked for %v: %v, want %v to %v", test.failures, test.asked, got, test.least, test.most)
			}
		}
	}
}

func TestAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"7":                             7 * time.Second,
		"60":                            time.Minute,
		"86400":                         retry.MaxWait,
		"9223372036854775807":           retry.MaxWait,
		"99999999999999999999":          0,
		"-1":                            0,
		"+1":                            0,
		"soon":                          0,
		"Fri, 31 Dec 1999 23:59:59 GMT": 0,
	} {
		if got := retry.After(http.Header{"Retry-After": {text}}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := retry.Sleep(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		hurry := errors.New("hurry")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(hurry) })
		began = time.Now()
		if err := retry.Sleep(ctx, time.Hour); err != hurry || time.Since(began) != time.Second {
			t.Errorf("%v after %v, want %v", err, time.Since(began), hurry)
		}
	})
}
