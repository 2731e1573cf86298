package hls

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/internal/load"
)

// A checker compares the samples in segments and parts with the published tags.
type checker struct {
	synth  *load.Synth
	kinds  map[uint32]byte // kind of each MP4 track: load.Video or load.Audio
	last   map[byte]uint64 // number of the last tag of each kind
	seen   map[uint64]bool
	lowest uint64
}

func newChecker(s *load.Synth) *checker {
	return &checker{synth: s, kinds: make(map[uint32]byte), last: make(map[byte]uint64),
		seen: make(map[uint64]bool)}
}

type contents struct {
	newest  uint64 // highest tag number
	picture uint64 // number of the last video tag
}

// edge is the number of tags at the beginning and at the end of the observation that never count as
// missing. The observer may not have fetched them.
const edge = 100

func (c *checker) countMissing() (n int) {
	highest := max(c.last[load.Video], c.last[load.Audio])
	for seq := c.lowest + edge; seq+edge < highest; seq++ {
		if !c.seen[seq] {
			n++
		}
	}
	return n
}

// checkSample compares a sample's payload with the published tag, and records the tag's number in
// dst.
func (c *checker) checkSample(dst *contents, kind byte, payload []byte) error {
	seq, _, err := c.synth.Verify(kind, payload)
	if err != nil {
		return err
	}
	if seq <= c.last[kind] {
		return fmt.Errorf("the sample of tag %d after that of tag %d", seq, c.last[kind])
	}
	if len(c.seen) == 0 {
		c.lowest = seq
	}
	c.lowest = min(c.lowest, seq)
	c.last[kind], c.seen[seq] = seq, true
	dst.newest = max(dst.newest, seq)
	if kind == load.Video {
		dst.picture = seq
	}
	return nil
}

// check verifies all samples of a part or segment, in fragmented MP4 or MPEG-TS.
func (c *checker) check(b []byte) (tags contents, err error) {
	if len(b) > 0 && b[0] == tsSync {
		err = c.checkTransportStream(&tags, b)
	} else {
		err = c.checkFragments(&tags, b)
	}
	if err == nil && tags.picture == 0 {
		err = errors.New("no picture")
	}
	return tags, err
}

var errBoxes = errors.New("the boxes do not fit one another")

// walkBoxes calls f with the type and the content of each box in b. If a box is only a container,
// walkBoxes calls f for the boxes inside the container instead.
func walkBoxes(b []byte, f func(kind string, body []byte) error) error {
	for len(b) > 0 {
		if len(b) < 8 {
			return errBoxes
		}
		kind, size := string(b[4:8]), int(binary.BigEndian.Uint32(b))
		if size < 8 || size > len(b) {
			return errBoxes
		}
		var err error
		switch body := b[8:size]; kind {
		case "moov", "trak", "mdia", "traf":
			err = walkBoxes(body, f)
		default:
			err = f(kind, body)
		}
		if err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// readHeader stores the kinds of the tracks of an initialization segment in c.kinds.
func (c *checker) readHeader(b []byte) error {
	var id uint32
	err := walkBoxes(b, func(kind string, body []byte) error {
		switch {
		case kind == "tkhd" && len(body) >= 16:
			id = binary.BigEndian.Uint32(body[12:])
		case kind == "hdlr" && len(body) >= 12:
			c.kinds[id] = map[string]byte{"vide": load.Video, "soun": load.Audio}[string(body[8:12])]
		}
		return nil
	})
	if err == nil && len(c.kinds) != 2 {
		err = fmt.Errorf("an initialization segment of %d tracks", len(c.kinds))
	}
	return err
}

// checkFragments verifies the samples of the MP4 fragments in b. In trun boxes, it supports only
// the fields that media/mp4 writes.
func (c *checker) checkFragments(dst *contents, b []byte) error {
	for len(b) > 0 {
		size := uint32(0)
		if len(b) >= 16 {
			size = binary.BigEndian.Uint32(b)
		}
		if size < 16 || int(size) > len(b)-8 || string(b[4:8]) != "moof" ||
			string(b[size+4:size+8]) != "mdat" {
			return errBoxes
		}
		whole := size + binary.BigEndian.Uint32(b[size:])
		if whole < size+8 || int(whole) > len(b) {
			return errBoxes
		}
		var kind byte
		err := walkBoxes(b[8:size], func(name string, box []byte) error {
			switch {
			case name == "tfhd" && len(box) >= 8:
				kind = c.kinds[binary.BigEndian.Uint32(box[4:])]
			case name == "trun" && len(box) >= 12:
				return c.checkRun(dst, kind, box, b[:whole])
			}
			return nil
		})
		if err != nil {
			return err
		}
		b = b[whole:]
	}
	return nil
}

// checkRun verifies the samples that a trun box describes. The data offset in the box is relative
// to the start of the fragment.
func (c *checker) checkRun(dst *contents, kind byte, box, fragment []byte) error {
	count, offset, rows := int(binary.BigEndian.Uint32(box[4:])),
		int(binary.BigEndian.Uint32(box[8:])), box[12:]
	width := map[byte]int{load.Audio: 8, load.Video: 16}[kind]
	if width == 0 || len(rows) != count*width || offset > len(fragment) {
		return errBoxes
	}
	data := fragment[offset:]
	for ; len(rows) > 0; rows = rows[width:] {
		n := int(binary.BigEndian.Uint32(rows[4:]))
		if n > len(data) {
			return errBoxes
		}
		payload := []byte{0xaf, 1}
		if kind == load.Video {
			payload = []byte{0x27, 1, 0, 0, 0}
			if binary.BigEndian.Uint32(rows[8:]) == 2<<24 { // the sample depends on no other sample
				payload[0] = 0x17
			}
		}
		if err := c.checkSample(dst, kind, append(payload, data[:n]...)); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

const (
	tsSync   = 0x47
	tsPacket = 188
	pesVideo = 0xe0
	pesAudio = 0xc0
)

var errTS = errors.New("not the transport stream that is expected")

// checkTransportStream checks an MPEG-TS segment with H.264 and AAC. Each video access unit must
// have its own PES packet.
func (c *checker) checkTransportStream(dst *contents, b []byte) error {
	pending := make(map[uint16][]byte) // incomplete PES packets by PID
	var pids []uint16
	for ; len(b) > 0; b = b[tsPacket:] {
		if len(b) < tsPacket || b[0] != tsSync {
			return errTS
		}
		pid, p := binary.BigEndian.Uint16(b[1:])&0x1fff, b[4:tsPacket]
		if b[3]&0x20 != 0 { // skip the adaptation field
			if int(p[0]) >= len(p) {
				return errTS
			}
			p = p[1+int(p[0]):]
		}
		first := b[1]&0x40 != 0
		if first {
			if err := c.checkPacket(dst, pending[pid]); err != nil {
				return err
			}
			if pending[pid] == nil {
				pids = append(pids, pid)
			}
			pending[pid] = []byte{}
		}
		if b[3]&0x10 != 0 && pending[pid] != nil {
			pending[pid] = append(pending[pid], p...)
		}
	}
	for _, pid := range pids {
		if err := c.checkPacket(dst, pending[pid]); err != nil {
			return err
		}
	}
	return nil
}

// checkPacket checks the samples of a PES packet. It ignores the tables of the transport stream,
// which are not PES packets.
func (c *checker) checkPacket(dst *contents, p []byte) error {
	if !bytes.HasPrefix(p, []byte{0, 0, 1}) {
		return nil
	}
	if len(p) < 9 || len(p) < 9+int(p[8]) {
		return errTS
	}
	kind, data := p[3], p[9+int(p[8]):]
	switch kind {
	case pesVideo:
		return c.checkPicture(dst, data)
	case pesAudio:
		for len(data) > 0 {
			if len(data) < 7 {
				return errTS
			}
			n := int(binary.BigEndian.Uint32(data[3:])>>13) & 0x1fff // length of the ADTS frame
			if n < 7 || n > len(data) {
				return errTS
			}
			if err := c.checkSample(dst, load.Audio, append([]byte{0xaf, 1}, data[7:n]...)); err != nil {
				return err
			}
			data = data[n:]
		}
	}
	return nil
}

// checkPicture verifies a video frame in Annex B format. It does not handle emulation prevention,
// because the published NAL units contain no zero bytes.
func (c *checker) checkPicture(dst *contents, data []byte) error {
	payload := []byte{0x27, 1, 0, 0, 0}
	for nal := range bytes.SplitSeq(data, []byte{0, 0, 1}) {
		nal = bytes.TrimRight(nal, "\x00")
		if len(nal) == 0 {
			continue
		}
		switch nal[0] & 31 {
		case 7, 8, 9: // parameter sets and access unit delimiters
			continue
		case 5:
			payload[0] = 0x17
		}
		payload = binary.BigEndian.AppendUint32(payload, uint32(len(nal)))
		payload = append(payload, nal...)
	}
	return c.checkSample(dst, load.Video, payload)
}
