package stackbuf_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

// signatures maps the exported methods of t, a pointer type, to their signatures without the receiver.
func signatures(t reflect.Type) map[string]string {
	of := map[string]string{}
	for m := range t.Methods() {
		in := make([]reflect.Type, 0, m.Type.NumIn()-1)
		for i := 1; i < m.Type.NumIn(); i++ {
			in = append(in, m.Type.In(i))
		}
		out := make([]reflect.Type, 0, m.Type.NumOut())
		for result := range m.Type.Outs() {
			out = append(out, result)
		}
		of[m.Name] = fmt.Sprint(reflect.FuncOf(in, out, m.Type.IsVariadic()))
	}
	return of
}

// Whatever bytes.Buffer has, also in a later Go, Buffer has with the same signature; and Shrink besides.
func TestBufferHasEveryMethod(t *testing.T) {
	want := signatures(reflect.TypeFor[*bytes.Buffer]())
	got := signatures(reflect.TypeFor[*stackbuf.Buffer]())
	if len(want) < 20 {
		t.Fatalf("bytes.Buffer has only %d methods: %v", len(want), want)
	}
	for name, signature := range want {
		if got[name] != signature {
			t.Errorf("%s is %q, want %q", name, got[name], signature)
		}
		delete(got, name)
	}
	if len(got) != 1 || got["Shrink"] != "func()" {
		t.Errorf("the methods that bytes.Buffer has not are %v, want Shrink alone", got)
	}
}

// So a value has no method that works on a copy without being asked.
func TestAllMethodsHavePointerReceivers(t *testing.T) {
	if n := reflect.TypeFor[stackbuf.Buffer]().NumMethod(); n != 0 {
		t.Errorf("a Buffer value has %d methods, want none", n)
	}
}

func TestFunctionsAndConstants(t *testing.T) {
	for name, pair := range map[string][2]any{
		"NewBuffer":       {bytes.NewBuffer, stackbuf.NewBuffer},
		"NewBufferString": {bytes.NewBufferString, stackbuf.NewBufferString},
	} {
		theirs, ours := reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1])
		want := reflect.FuncOf([]reflect.Type{theirs.In(0)}, []reflect.Type{reflect.TypeFor[*stackbuf.Buffer]()}, false)
		if ours != want {
			t.Errorf("%s is a %v, want %v", name, ours, want)
		}
	}
	if stackbuf.MinRead != bytes.MinRead {
		t.Errorf("MinRead is %d, want %d", stackbuf.MinRead, bytes.MinRead)
	}
	if stackbuf.ErrTooLarge != bytes.ErrTooLarge {
		t.Errorf("ErrTooLarge is %v, want that of bytes", stackbuf.ErrTooLarge)
	}
}

// 112 is a size class: on the heap a Buffer wastes nothing.
func TestSizeOfBuffer(t *testing.T) {
	want := uintptr(112)
	if strconv.IntSize == 32 {
		want = 3*4 + 2*4 + 1 + 64 + 3
	}
	if size := reflect.TypeFor[stackbuf.Buffer]().Size(); size != want {
		t.Errorf("a Buffer has %d bytes, want %d", size, want)
	}
}
