package millracetest_test

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/millracetest"
)

// readWord stands for the code under test.
func readWord(r *millrace.Reader) (millrace.Ref, error) { return r.ReadRef(4) }

// A test with its own Pool. It fails if readWord or the test itself forgets a block.
func ExampleNewPool() {
	_ = func(t *testing.T) {
		pool := millracetest.NewPool(t)
		r := pool.NewReader(strings.NewReader("word and more"), 4096)
		defer r.Release()
		word, err := readWord(r)
		if err != nil {
			t.Fatal(err)
		}
		defer word.Release()
		if string(word.Bytes()) != "word" {
			t.Errorf("read %q", word.Bytes())
		}
	}
}

// A test of code that uses millrace.DefaultPool.
func ExampleNoLeaks() {
	_ = func(t *testing.T) {
		millracetest.NoLeaks(t)
		r := millrace.NewReader(strings.NewReader("word"))
		t.Cleanup(r.Release)
		if b, err := r.ReadByte(); err != nil || b != 'w' {
			t.Errorf("read %q, %v", b, err)
		}
	}
}

// Several accounts of one Pool, each checked for itself.
func ExampleCheckPool() {
	_ = func(t *testing.T) {
		account := millracetest.NewPool(t).Account()
		millracetest.CheckPool(t, account)
		d := account.Get(100)
		d.Release()
	}
}

// Every package that uses Millrace can have a TestMain like this one.
func ExampleMain() {
	_ = func(m *testing.M) { millracetest.Main(m) }
}
