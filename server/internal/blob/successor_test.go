//go:build unix

package blob

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace"
)

// A successor shares the directory with the process that it replaces. Running uploads of that
// process are not deleted. If writers in both want to be the first, one of them is. A third process
// cannot open the directory until both have ended.
func TestSuccessorShares(t *testing.T) {
	dir := t.TempDir()
	refused := func(when string) {
		t.Helper()
		if d, err := openStore(dir, false, millrace.DefaultPool()); err == nil ||
			!strings.Contains(err.Error(), "another process") {
			t.Errorf("%s: %v, want an error that names another process", when, err)
			if err == nil {
				_ = d.Close()
			}
		}
	}
	old, err := openStore(dir, true, millrace.DefaultPool()) // without a predecessor
	if err != nil {
		t.Fatal(err)
	}
	refused("a second process")
	body, send := io.Pipe()
	uploaded := make(chan error, 1)
	go func() {
		_, _, err := old.Put(t.Context(), "slow", body, unknownSize, Put{Limit: limit})
		uploaded <- err
	}()
	_, _ = send.Write([]byte("begun, "))
	next := openSuccessor(t, dir)
	refused("a third process")
	_, _ = send.Write([]byte("ended"))
	_ = send.Close()
	if err := <-uploaded; err != nil {
		t.Errorf("the upload to the process that ends: %v", err)
	}
	serve(t, next).mustHave(t, "slow", []byte("begun, ended"))

	onlyNew := ConditionOf(map[string][]string{"If-None-Match": {"*"}})
	for round := range 20 {
		key, value := fmt.Sprint("key", round), []byte("value")
		var created atomic.Int64
		var writers sync.WaitGroup
		for i := range 8 {
			writers.Go(func() {
				d := []*directory{old, next}[i%2]
				_, isNew, err := d.Put(t.Context(), key, bytes.NewReader(value), int64(len(value)),
					Put{Limit: limit, Only: onlyNew})
				if isNew {
					created.Add(1)
				} else if err != ErrCondition {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		if n := created.Load(); n != 1 {
			t.Errorf("%d writers were the first", n)
		}
	}
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	refused("after the first one has ended")
	mustPut(t, next, "slow", []byte("new"))
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	serve(t, openDirectory(t, dir)).mustHave(t, "slow", []byte("new"))
}

func openSuccessor(t *testing.T, dir string) *directory {
	t.Helper()
	d, err := openStore(dir, true, millrace.DefaultPool())
	if err != nil {
		t.Fatal(err)
	}
	return d
}
