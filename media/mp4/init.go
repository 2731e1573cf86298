package mp4

import (
	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// AppendInit appends the init segment (ftyp and moov) of the last fragment to dst, which then owns
// it. Before the first fragment, it returns ErrNoInit and leaves dst unchanged.
//
// The init segment is the same for every viewer, because fragments carry the stream's time, and a
// player starts at the time of its first fragment. There is no edit list to make that time 0.
// Chromium and ffmpeg treat the part of an AAC track before an edit list as encoder delay, and
// decode and discard it. A viewer who joins an hour after the start would have to wait for an hour.
func (m *Muxer) AppendInit(dst *millrace.Chain) error {
	if m.sent == [2]*config{} {
		return ErrNoInit
	}
	w := &boxes{b: make([]byte, 0, 1<<10)}
	ftyp := w.begin("ftyp")
	w.text("iso6")
	w.u32(0)
	w.text("iso6iso5mp41")
	w.end(ftyp)
	moov := w.begin("moov")
	w.movieHeader()
	ids := [2]uint32{m.video.id, m.audio.id}
	for i, c := range m.sent {
		if c != nil {
			w.track(ids[i], c)
		}
	}
	mvex := w.begin("mvex")
	for i, c := range m.sent {
		if c != nil {
			w.trackDefaults(ids[i], c)
		}
	}
	w.end(mvex)
	w.end(moov)
	dst.AppendCopy(w.b)
	return nil
}

func (w *boxes) movieHeader() {
	at := w.full("mvhd", 0, 0)
	w.zeros(8)     // created, modified
	w.u32(1000)    // scale
	w.u32(0)       // duration: given by the fragments
	w.u32(1 << 16) // rate
	w.u16(1 << 8)  // volume
	w.zeros(2 + 8) // reserved
	w.matrix()
	w.zeros(6 * 4)   // predefined
	w.u32(1<<32 - 1) // next track
	w.end(at)
}

func (w *boxes) track(id uint32, c *config) {
	trak := w.begin("trak")
	w.trackHeader(id, c)
	mdia := w.begin("mdia")
	mdhd := w.full("mdhd", 0, 0)
	w.zeros(8) // created, modified
	w.u32(c.scale)
	w.u32(0)      // duration: given by the fragments
	w.u16(0x55c4) // language: und
	w.u16(0)
	w.end(mdhd)
	w.handler(c)
	minf := w.begin("minf")
	if c.width > 0 {
		vmhd := w.full("vmhd", 0, 1)
		w.zeros(8)
		w.end(vmhd)
	} else {
		smhd := w.full("smhd", 0, 0)
		w.zeros(4)
		w.end(smhd)
	}
	w.dataInformation()
	w.sampleTable(c)
	w.end(minf)
	w.end(mdia)
	w.end(trak)
}

func (w *boxes) trackHeader(id uint32, c *config) {
	at := w.full("tkhd", 0, 3) // flags: enabled, in the movie
	w.zeros(8)                 // created, modified
	w.u32(id)
	w.zeros(4 + 4 + 8) // reserved, duration, reserved
	w.u16(0)           // layer
	w.u16(0)           // alternate group
	if c.width > 0 {
		w.u16(0)
	} else {
		w.u16(1 << 8) // volume
	}
	w.u16(0)
	w.matrix()
	w.u32(c.shownWidth())
	w.u32(uint32(c.height) << 16)
	w.end(at)
}

// shownWidth returns the display width of the video, in 65536ths of a pixel. It is 0 for audio.
func (c *config) shownWidth() uint32 {
	width := uint64(c.width) << 16
	if c.shape[1] > 0 {
		width = width * uint64(c.shape[0]) / uint64(c.shape[1])
	}
	return uint32(min(width, 1<<32-1))
}

func (w *boxes) handler(c *config) {
	at := w.full("hdlr", 0, 0)
	w.u32(0)
	if c.width > 0 {
		w.text("vide")
	} else {
		w.text("soun")
	}
	w.zeros(3*4 + 1) // reserved, no name
	w.end(at)
}

// dataInformation appends boxes that say that the samples are in this file.
func (w *boxes) dataInformation() {
	dinf := w.begin("dinf")
	dref := w.full("dref", 0, 0)
	w.u32(1)
	url := w.full("url ", 0, 1)
	w.end(url)
	w.end(dref)
	w.end(dinf)
}

// sampleTable appends a sample description for the codec. The table has no samples, because the
// samples are in the fragments.
func (w *boxes) sampleTable(c *config) {
	stbl := w.begin("stbl")
	stsd := w.full("stsd", 0, 0)
	w.u32(1)
	switch c.codec {
	case flv.AVC:
		w.visual("avcC", c)
	case flv.HEVC:
		w.visual("hvcC", c)
	case flv.AAC:
		w.sound(c)
	}
	w.end(stsd)
	for _, kind := range []string{"stts", "stsc", "stco"} {
		at := w.full(kind, 0, 0)
		w.u32(0)
		w.end(at)
	}
	stsz := w.full("stsz", 0, 0)
	w.zeros(4 + 4)
	w.end(stsz)
	w.end(stbl)
}

func (w *boxes) visual(record string, c *config) {
	at := w.begin(c.entry)
	w.zeros(6)
	w.u16(1) // data reference
	w.zeros(16)
	w.u16(c.width)
	w.u16(c.height)
	w.u32(72 << 16) // pixels per inch
	w.u32(72 << 16)
	w.u32(0)
	w.u16(1)      // video frames per sample
	w.zeros(32)   // name of the compressor
	w.u16(24)     // depth
	w.u16(0xffff) // no colour table
	box := w.begin(record)
	w.bytes(c.box)
	w.end(box)
	if c.shape[1] > 0 {
		pasp := w.begin("pasp")
		w.u32(uint32(c.shape[0]))
		w.u32(uint32(c.shape[1]))
		w.end(pasp)
	}
	w.end(at)
}

func (w *boxes) sound(c *config) {
	at := w.begin("mp4a")
	w.zeros(6)
	w.u16(1) // data reference
	w.zeros(8)
	w.u16(c.channels)
	w.u16(16) // bits per sample
	w.u32(0)
	if c.scale > 0xffff {
		w.u32(0) // the rate does not fit into 16 bits; it is in the record
	} else {
		w.u32(c.scale << 16)
	}
	esds := w.full("esds", 0, 0)
	w.elementaryStream(c.record)
	w.end(esds)
	w.end(at)
}

// elementaryStream appends the descriptors of ISO/IEC 14496-1 for an AudioSpecificConfig.
func (w *boxes) elementaryStream(record []byte) {
	n := len(record)
	w.descriptor(3, 3+(5+13)+(5+n)+(5+1)) // ES descriptor: 3 bytes and three descriptors
	w.u16(0)                              // id
	w.u8(0)                               // flags
	w.descriptor(4, 13+5+n)               // decoder
	w.u8(0x40)                            // AAC
	w.u8(5<<2 | 1)                        // audio
	w.zeros(3 + 4 + 4)                    // buffer size and bit rates: not known
	w.descriptor(5, n)                    // decoder-specific info
	w.bytes(record)
	w.descriptor(6, 1) // synchronisation: as in MP4
	w.u8(2)
}

// descriptor begins a descriptor with n bytes of content. The size is in the long form, with four
// bytes of seven bits each.
func (w *boxes) descriptor(tag uint8, n int) {
	w.u8(tag)
	w.u8(uint8(n>>21) | 0x80)
	w.u8(uint8(n>>14) | 0x80)
	w.u8(uint8(n>>7) | 0x80)
	w.u8(uint8(n) & 0x7f)
}

// trackDefaults appends the trex box with the defaults for the samples of fragments.
func (w *boxes) trackDefaults(id uint32, c *config) {
	at := w.full("trex", 0, 0)
	w.u32(id)
	w.u32(1) // description
	w.u32(0) // duration
	w.u32(0) // size
	if c.width > 0 {
		w.u32(flagsDelta)
	} else {
		w.u32(flagsKey)
	}
	w.end(at)
}
