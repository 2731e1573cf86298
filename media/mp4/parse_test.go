package mp4_test

import (
	"encoding/binary"
	"fmt"
)

// The reference reader of MP4. It has the complete file in memory, follows the standard literally,
// and shares no code with the package.

// track is the description of a track in an init segment.
type track struct {
	id            uint32
	handler       string
	entry         string // of the sample description
	scale         uint32
	width, height uint16 // in the sample description
	shown         uint32 // width in the track header, in 16.16
	channels      uint16
	rate          uint32 // in the sample description, in 16.16
	record        string // avcC, hvcC, or the AudioSpecificConfig in esds
	aspect        string // sample aspect ratio, "h:v"
}

// packet is a sample as a player would see it.
type packet struct {
	track    uint32
	dts, pts int64 // in the track's time units
	duration uint32
	key      bool
	data     string // without the bytes that unit adds
	size     int    // including those bytes
}

// String prints the packet's data, dts, pts if it differs, and duration.
func (p packet) String() string {
	shown := ""
	if p.pts != p.dts {
		shown = fmt.Sprint(">", p.pts)
	}
	return fmt.Sprintf("%s@%d%s+%d", p.data, p.dts, shown, p.duration)
}

// readBoxes calls f with the type and the contents of each box in b.
func readBoxes(b []byte, f func(kind string, in []byte)) {
	for len(b) > 0 {
		n := binary.BigEndian.Uint32(b)
		if n < 8 || int(n) > len(b) {
			panic(fmt.Sprintf("box %q of %d bytes in %d", b[4:8], n, len(b)))
		}
		f(string(b[4:8]), b[8:n])
		b = b[n:]
	}
}

func readInit(b []byte) (tracks []track) {
	readBoxes(b, func(kind string, in []byte) {
		if kind != "moov" {
			return
		}
		readBoxes(in, func(kind string, in []byte) {
			if kind == "trak" {
				tracks = append(tracks, readTrack(in))
			}
		})
	})
	return tracks
}

func readTrack(b []byte) (t track) {
	var walk func(kind string, in []byte)
	walk = func(kind string, in []byte) {
		switch kind {
		case "mdia", "minf", "stbl":
			readBoxes(in, walk)
		case "tkhd":
			t.id, t.shown = binary.BigEndian.Uint32(in[12:]), binary.BigEndian.Uint32(in[76:])
		case "mdhd":
			t.scale = binary.BigEndian.Uint32(in[12:])
		case "hdlr":
			t.handler = string(in[8:12])
		case "stsd":
			readBoxes(in[8:], func(kind string, in []byte) { t.readEntry(kind, in) })
		}
	}
	readBoxes(b, walk)
	return t
}

func (t *track) readEntry(kind string, in []byte) {
	t.entry = kind
	if kind == "mp4a" {
		t.channels, t.rate = binary.BigEndian.Uint16(in[16:]), binary.BigEndian.Uint32(in[24:])
		readBoxes(in[28:], func(kind string, in []byte) { t.record = readDescriptors(in[4:]) })
		return
	}
	t.width, t.height = binary.BigEndian.Uint16(in[24:]), binary.BigEndian.Uint16(in[26:])
	readBoxes(in[78:], func(kind string, in []byte) {
		switch kind {
		case "avcC", "hvcC":
			t.record = string(in)
		case "pasp":
			t.aspect = fmt.Sprintf("%d:%d", binary.BigEndian.Uint32(in),
				binary.BigEndian.Uint32(in[4:]))
		}
	})
}

// readDescriptors finds the decoder configuration in an esds box, and checks every length.
func readDescriptors(b []byte) (record string) {
	for len(b) > 0 {
		tag, n, at := b[0], 0, 1
		for more := true; more; at++ {
			more = b[at]&0x80 != 0
			n = n<<7 | int(b[at]&0x7f)
		}
		in := b[at : at+n]
		b = b[at+n:]
		switch tag {
		case 3:
			record = readDescriptors(in[3:])
		case 4:
			if in[0] != 0x40 || in[1] != 0x15 {
				panic("not AAC")
			}
			record = readDescriptors(in[13:])
		case 5:
			record = string(in)
		}
	}
	return record
}

// readFragments reads moof and mdat pairs.
func readFragments(b []byte) (packets []packet) {
	for len(b) > 0 {
		size := binary.BigEndian.Uint32(b)
		if string(b[4:8]) != "moof" {
			panic("no moof")
		}
		end := size + binary.BigEndian.Uint32(b[size:])
		if string(b[size+4:size+8]) != "mdat" {
			panic("no mdat")
		}
		whole, used := b[:end], 0
		readBoxes(b[8:size], func(kind string, in []byte) {
			if kind == "traf" {
				for _, p := range readRun(in, whole) {
					packets = append(packets, p)
					used += p.size
				}
			}
		})
		if used != int(end-size)-8 {
			panic(fmt.Sprintf("%d bytes of samples in an mdat of %d", used, end-size))
		}
		b = b[end:]
	}
	return packets
}

func readRun(traf, whole []byte) (packets []packet) {
	var id uint32
	var dts int64
	readBoxes(traf, func(kind string, in []byte) {
		switch kind {
		case "tfhd":
			if binary.BigEndian.Uint32(in) != 0x020000 {
				panic("tfhd flags")
			}
			id = binary.BigEndian.Uint32(in[4:])
		case "tfdt":
			dts = int64(binary.BigEndian.Uint64(in[4:]))
		case "trun":
			flags := binary.BigEndian.Uint32(in)
			n, offset := binary.BigEndian.Uint32(in[4:]), binary.BigEndian.Uint32(in[8:])
			in = in[12:]
			next := func() uint32 { v := binary.BigEndian.Uint32(in); in = in[4:]; return v }
			for range n {
				p := packet{track: id, dts: dts, pts: dts, key: true, duration: next()}
				size := next()
				if flags&0x400 != 0 {
					p.key = next()&(1<<16) == 0
				}
				if flags&0x800 != 0 {
					p.pts += int64(int32(next()))
				}
				p.data, p.size = unitData(string(whole[offset:offset+size])), int(size)
				offset += size
				dts += int64(p.duration)
				packets = append(packets, p)
			}
			if len(in) > 0 {
				panic("trun is longer than its samples")
			}
		}
	})
	return packets
}
