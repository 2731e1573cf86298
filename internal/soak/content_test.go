package soak

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// Content is the same however it is cut, and any wrong byte is found where it is.
func TestContent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	whole := make([]byte, 3*compareSize+5)
	fill(whole, 7, 0)
	for range 2000 {
		from := r.IntN(len(whole))
		n := r.IntN(len(whole) - from + 1)
		p := make([]byte, n)
		fill(p, 7, int64(from))
		if !bytes.Equal(p, whole[from:from+n]) || differs(p, 7, int64(from)) != -1 {
			t.Fatalf("%d bytes from %d", n, from)
		}
		if n == 0 {
			continue
		}
		at := r.IntN(n)
		p[at] ^= 1 << r.IntN(8)
		if got := differs(p, 7, int64(from)); got != at {
			t.Fatalf("%d bytes from %d: wrong at %d, found at %d", n, from, at, got)
		}
	}
}

// A film that is whole, or from a key frame on, is what it should be; anything else is not.
func TestFilm(t *testing.T) {
	f := newFilm(99, 4000)
	lookup := func(id uint64) (film, bool) { return f, id == f.id }
	tags := func(seqs ...uint64) (b []byte) {
		b = append(b, flvHead...)
		for _, h := range filmHeads() {
			b = append(b, h...)
		}
		for _, seq := range seqs {
			b = f.appendTo(b, seq)
		}
		return b
	}
	from := func(first, last uint64) (list []uint64) {
		for ; first <= last; first++ {
			list = append(list, first)
		}
		return list
	}
	for _, test := range []struct {
		name string
		body []byte
		gaps uint64
		ok   bool
	}{
		{"whole", tags(from(1, 60)...), 0, true},
		{"nothing", tags(), 0, true},
		{"from a key frame on", tags(from(groupTags+1, 60)...), 0, true},
		{"moved forward to a key frame", tags(append(from(1, 5), from(groupTags+1, 30)...)...), groupTags - 5, true},
		{"from the middle on", tags(from(2, 60)...), 0, false},
		{"a tag less", tags(1, 2, 4, 5), 0, false},
		{"a tag twice", tags(1, 2, 2, 3), 0, false},
		{"the wrong order", tags(1, 3, 2), 0, false},
		{"half a tag at the end", tags(1, 2, 3)[:len(tags(1, 2))+20], 0, false},
		{"half a head at the end", append(tags(1, 2), 9, 0), 0, false},
		{"another film", newFilm(98, 4000).appendTo(tags(1), 2), 0, false},
		{"another head", append([]byte("FLV\x01\x04"), tags(1)[5:]...), 0, false},
	} {
		for _, body := range []io.Reader{bytes.NewReader(test.body), iotest.OneByteReader(bytes.NewReader(test.body))} {
			v := &filmVerifier{name: "x", lookup: lookup}
			err := v.verify(body)
			if (err == nil) != test.ok || err != nil && !isWrong(err) || v.gaps != test.gaps {
				t.Errorf("%s: %v, %d passed over", test.name, err, v.gaps)
			}
		}
	}
	body := tags(from(1, 60)...)
	for i := len(tags()); i < len(body); i += 1009 {
		bad := bytes.Clone(body)
		bad[i] ^= 0x10
		if err := (&filmVerifier{lookup: lookup}).verify(bytes.NewReader(bad)); !isWrong(err) {
			t.Errorf("byte %d is wrong: %v", i, err)
		}
	}
	cut := io.MultiReader(bytes.NewReader(body[:len(body)-50]), iotest.ErrReader(io.ErrUnexpectedEOF))
	if err := (&filmVerifier{lookup: lookup}).verify(cut); err != errCut {
		t.Errorf("a response that was cut: %v", err)
	}
}

// A viewer of a tape finds its place wherever it joins, and misses nothing from there on.
func TestTape(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tp := tape{5}
	whole := make([]byte, 50_000)
	tp.fill(whole, 0)
	verify := func(b []byte) (*tapeVerifier, error) {
		v := &tapeVerifier{name: "x", tapes: func() []tape { return []tape{{4}, tp} }}
		return v, v.verify(iotest.HalfReader(bytes.NewReader(b)))
	}
	for range 100 {
		from := r.IntN(len(whole) - 100)
		to := from + 2*tapeUnit + r.IntN(len(whole)-from-2*tapeUnit)
		if v, err := verify(whole[from:to]); err != nil || v.off != int64(to) {
			t.Fatalf("%d to %d: %v, %d", from, to, err, v.off)
		}
		at := from + (to-from)/2
		on := at + 1 + r.IntN(1000)
		if on+2*tapeUnit > len(whole) || at-from < 2*tapeUnit {
			continue
		}
		if _, err := verify(append(bytes.Clone(whole[from:at]), whole[on:]...)); !isWrong(err) {
			t.Fatalf("%d to %d and from %d on: %v", from, at, on, err)
		}
		bad := bytes.Clone(whole[from:])
		i := r.IntN(max(1, len(bad)-3*tapeUnit))
		if bad[i] ^= 1; len(bad) < 4*tapeUnit {
			continue
		}
		if _, err := verify(bad); !isWrong(err) {
			t.Fatalf("byte %d of %d is wrong: %v", i, len(bad), err)
		}
	}
	if _, err := verify(append(bytes.Clone(whole[4000:8000]), whole[:8000]...)); !isWrong(err) {
		t.Errorf("a tape that goes back: %v", err)
	}
	if _, err := verify(make([]byte, 1000)); !isWrong(err) {
		t.Errorf("a tape that nobody sent: %v", err)
	}
}

// A value is whole, or an error.
func TestValue(t *testing.T) {
	v := newValueReader("k", 3, 5000)
	whole, err := io.ReadAll(iotest.OneByteReader(v))
	if err != nil || len(whole) != 5000 {
		t.Fatal(len(whole), err)
	}
	if got, err := readValue(bytes.NewReader(whole), "k"); err != nil || got != v.value {
		t.Errorf("%+v, %v", got, err)
	}
	older, _ := io.ReadAll(newValueReader("k", 2, 5000))
	for name, b := range map[string][]byte{
		"short":       whole[:4999],
		"long":        append(bytes.Clone(whole), 0),
		"empty":       nil,
		"torn":        append(bytes.Clone(whole[:2500]), older[2500:]...),
		"a wrong bit": append(bytes.Clone(whole[:4999]), whole[4999]^1),
		"no head":     whole[1:],
	} {
		if _, err := readValue(bytes.NewReader(b), "k"); !isWrong(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readValue(bytes.NewReader(whole), "another"); !isWrong(err) {
		t.Errorf("under another key: %v", err)
	}
	part := newValueReader("k", 3, 5000)
	waited := 0
	part.stop, part.wait = 1000, func() { waited++ }
	if b, err := io.ReadAll(part); len(b) != 1000 || !errors.Is(err, errBreakOff) || waited != 1 {
		t.Errorf("%d bytes, %v, waited %d times", len(b), err, waited)
	}
}

// A register lets pass what one that behaves can have, and nothing else.
func TestRegister(t *testing.T) {
	var r register
	check := func(what string, err error, ok bool) {
		t.Helper()
		if (err == nil) != ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("nothing at first", r.nothing(r.read()), true)
	check("what was never put", r.found(r.read(), 1), false)
	early := r.read()
	one := r.write(false)
	check("what is being put", r.found(early, one), true)
	check("nothing, to one who began before", r.nothing(early), true)
	check("nothing, when it was seen", r.nothing(r.read()), false)
	r.done(one)
	two := r.write(false) // in doubt
	check("the old one", r.found(r.read(), one), true)
	check("the one in doubt", r.found(r.read(), two), true)
	check("the old one again", r.found(r.read(), one), false)
	three := r.write(true)
	check("nothing, while it is deleted", r.nothing(r.read()), true)
	r.done(three)
	check("nothing, when it is deleted", r.nothing(r.read()), true)
	check("what was deleted", r.found(r.read(), two), false)
}
