package hls

import (
	"strconv"
	"strings"
)

// Kind is the kind of an Object.
type Kind uint8

// The kinds of objects that a player requests, with the form of their names.
const (
	KindInit    Kind = iota + 1 // EPOCH-iMSN.mp4
	KindSegment                 // EPOCH-MSN.m4s
	KindPart                    // EPOCH-MSN.PART.m4s
)

// Object identifies an init segment, a segment or a part. The bytes of an object never change.
type Object struct {
	Kind  Kind
	Epoch uint64
	MSN   uint64 // media sequence number, or the number of an init segment, counted from 0
	Part  int    // index of a part in its segment; otherwise 0
}

// String returns the last element of the object's URL path, or "" if Kind is invalid.
func (o Object) String() string {
	if o.Kind < KindInit || o.Kind > KindPart {
		return ""
	}
	return string(o.appendName(nil))
}

func (o Object) appendName(dst []byte) []byte {
	dst = strconv.AppendUint(dst, o.Epoch, 36)
	dst = append(dst, '-')
	if o.Kind == KindInit {
		dst = append(dst, 'i')
	}
	dst = strconv.AppendUint(dst, o.MSN, 10)
	switch o.Kind {
	case KindInit:
		return append(dst, ".mp4"...)
	case KindPart:
		dst = append(dst, '.')
		dst = strconv.AppendUint(dst, uint64(o.Part), 10)
	}
	return append(dst, ".m4s"...)
}

// ParseObject returns the object with the given name. It accepts only names that String returns.
// Each object therefore has only one URL.
func ParseObject(name string) (o Object, ok bool) {
	var epoch, msn, index string
	epoch, msn, ok = strings.Cut(name, "-")
	if !ok {
		return Object{}, false
	}
	if s, init := strings.CutPrefix(msn, "i"); init {
		o.Kind = KindInit
		msn, ok = strings.CutSuffix(s, ".mp4")
	} else {
		o.Kind = KindSegment
		msn, ok = strings.CutSuffix(s, ".m4s")
	}
	if s, p, dot := strings.Cut(msn, "."); dot && o.Kind == KindSegment {
		o.Kind = KindPart
		msn, index = s, p
	}
	var err [3]error
	o.Epoch, err[0] = strconv.ParseUint(epoch, 36, 64)
	o.MSN, err[1] = strconv.ParseUint(msn, 10, 64)
	if o.Kind == KindPart {
		o.Part, err[2] = strconv.Atoi(index)
	}
	var room [64]byte
	if !ok || err != [3]error{} || o.Part < 0 || string(o.appendName(room[:0])) != name {
		return Object{}, false
	}
	return o, true
}
