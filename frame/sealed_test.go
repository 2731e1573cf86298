package frame_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
)

// sealedWays are the ways that work for a sealed format.
func sealedWays() []way { return ways()[1:] }

// sealedRecords have payloads that end just before and just after the end of a chunk.
func sealedRecords() (records []string) {
	for i, n := range []int{0, 1, 7, 8, 9, 15, 16, 17, 0, 40, 3} {
		records = append(records, rawFrame(byte(i), strings.Repeat(string(rune('a'+i)), n)))
	}
	return records
}

// A stream cut anywhere returns its complete frames, and an error for the rest.
func TestSealedStreamsThatEnd(t *testing.T) {
	records := sealedRecords()
	for whole := range records {
		begin := len(new(masked).seal(records[:whole]...))
		wire := new(masked).seal(records[:whole+1]...)
		want, wantErr := slowParse(strings.Join(records[:whole], ""), limits{most: 1 << 20})
		for end := begin; end < len(wire); end++ {
			got, err := decodeAll(t, strings.NewReader(wire[:end]), new(masked), sealedWays()[0])
			sameResult(t, fmt.Sprintf("%d of %d bytes", end, len(wire)), got, err, want, wantErr)
			wantErr = io.ErrUnexpectedEOF
		}
	}
}

// Errors of the source and full arenas lose nothing, between and within chunks. The call may be
// repeated with any Buffer.
func TestSealedFramesGoOn(t *testing.T) {
	for seed := range uint64(100) {
		checkSealed(t, seed, 0, 0)
	}
}

// checkSealed seals random records, changes the byte at at, and compares with the reference.
func checkSealed(t *testing.T, seed uint64, at uint16, by byte) {
	rnd := rand.New(rand.NewPCG(seed, 4))
	var records []string
	for range rnd.IntN(20) {
		payload := randomBytes(rnd, rnd.IntN(100)<<rnd.IntN(8))
		records = append(records, rawFrame(byte(rnd.IntN(badKind)), payload))
	}
	wire := []byte(new(masked).seal(records...))
	damaged := by != 0 && len(wire) > 0
	if damaged {
		wire[int(at)%len(wire)] ^= by
	}
	want, wantErr := slowParse(strings.Join(records, ""), limits{most: 1 << 20})
	r := millrace.NewReader(&sourcetest.Unsteady{Rest: string(wire), Rand: rnd})
	defer r.Release()
	d := frame.NewDecoder(r, new(masked))
	buffers := []arena.Buffer{new(arena.Heap), arena.NewPool(1 << 14),
		arena.NewPool(1<<14, arena.NoHeap())}
	var got []slowFrame
	for {
		frames, err := drain(d, way{next: into(buffers[rnd.IntN(len(buffers))])})
		got = append(got, frames...)
		switch {
		case err == sourcetest.ErrUnsteady, err == arena.ErrFull, err == io.ErrNoProgress:
			continue
		case damaged && !errors.Is(err, errSum):
			t.Fatalf("%v; the damage was not seen", err)
		case damaged:
			want, wantErr = want[:min(len(got), len(want))], err
		}
		sameResult(t, "sealed", got, err, want, wantErr)
		return
	}
}

// Data that cannot be opened end the stream, and leave nothing in the Buffer.
func TestSealedFaults(t *testing.T) {
	wire := new(masked).seal(sealedRecords()...)
	for i := range len(wire) {
		damaged := []byte(wire)
		damaged[i] ^= 0x40
		for _, w := range sealedWays() {
			if frames, err := decodeAll(t, bytes.NewReader(damaged), new(masked),
				w); !errors.Is(err, errSum) {
				t.Fatalf("byte %d: %d frames, %v", i, len(frames), err)
			}
		}
	}
}

// Limits and deadlines work as for plain formats.
func TestSealedLimitsAndDeadlines(t *testing.T) {
	r := millrace.NewReader(strings.NewReader(new(masked).seal(rawFrame(3, "too long"))))
	defer r.Release()
	var limit *frame.LimitError
	_, _, err := frame.NewDecoder(r, new(masked), frame.MaxKind(3, 7)).NextInto(new(arena.Heap))
	if !errors.As(err, &limit) || *limit != (frame.LimitError{Kind: 3, Have: 8, Limit: 7}) {
		t.Error(err)
	}

	wire := new(masked).seal(rawFrame(1, "the first chunk and the second one"))
	s := script{{time.Hour, wire[:12]}, {inPayload - 1, wire[12:20]}, {2, wire[20:]}}
	for _, w := range sealedWays() {
		conversation(t, s, new(masked), func(t *testing.T, d *frame.Decoder, _ *counted) {
			began := time.Now()
			var timeout *frame.TimeoutError
			if _, err := w.next(d); !errors.As(err, &timeout) ||
				time.Since(began) != time.Hour+inPayload {
				t.Errorf("%v after %v, want a timeout within the payload", err, time.Since(began))
			}
		})
	}
}
