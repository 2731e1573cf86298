package mp4

import (
	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// AppendInit appends the init segment (ftyp and moov) of the last fragment to dst, which then owns
// it. Before the first fragment, it returns ErrNoInit and leaves dst unchanged.
//
// All viewers can use the same init segment. Times count from the start of the stream, and a player
// starts at the time of its first fragment. There is no edit list for a start at time 0, because
// Chromium and ffmpeg would decode and discard the earlier part of an AAC track. A viewer who joins
// an hour after the start would have to wait for an hour.
func (m *Muxer) AppendInit(dst *millrace.Chain) error {
	if m.sent == [2]*config{} {
		return ErrNoInit
	}
	w := &boxBuffer{b: make([]byte, 0, 1<<10)}
	ftyp := w.open("ftyp")
	w.text("iso6")
	w.u32(0)
	w.text("iso6iso5mp41")
	w.close(ftyp)
	moov := w.open("moov")
	w.movieHeader()
	ids := [2]uint32{m.video.id, m.audio.id}
	for i, c := range m.sent {
		if c != nil {
			w.track(ids[i], c)
		}
	}
	mvex := w.open("mvex")
	for i, c := range m.sent {
		if c != nil {
			w.trackDefaults(ids[i], c)
		}
	}
	w.close(mvex)
	w.close(moov)
	dst.AppendCopy(w.b)
	return nil
}

func (w *boxBuffer) movieHeader() {
	at := w.openFull("mvhd", 0, 0)
	w.zeros(8)     // created, modified
	w.u32(1000)    // scale
	w.u32(0)       // duration: given by the fragments
	w.u32(1 << 16) // rate
	w.u16(1 << 8)  // volume
	w.zeros(2 + 8) // reserved
	w.matrix()
	w.zeros(6 * 4)   // predefined
	w.u32(1<<32 - 1) // next track
	w.close(at)
}

func (w *boxBuffer) track(id uint32, c *config) {
	trak := w.open("trak")
	w.trackHeader(id, c)
	mdia := w.open("mdia")
	mdhd := w.openFull("mdhd", 0, 0)
	w.zeros(8) // created, modified
	w.u32(c.scale)
	w.u32(0)      // duration: given by the fragments
	w.u16(0x55c4) // language: und
	w.u16(0)
	w.close(mdhd)
	w.handler(c)
	minf := w.open("minf")
	if c.width > 0 {
		vmhd := w.openFull("vmhd", 0, 1)
		w.zeros(8)
		w.close(vmhd)
	} else {
		smhd := w.openFull("smhd", 0, 0)
		w.zeros(4)
		w.close(smhd)
	}
	w.dataInformation()
	w.sampleTable(c)
	w.close(minf)
	w.close(mdia)
	w.close(trak)
}

func (w *boxBuffer) trackHeader(id uint32, c *config) {
	at := w.openFull("tkhd", 0, 3) // flags: enabled, in the movie
	w.zeros(8)                     // created, modified
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
	w.close(at)
}

// shownWidth returns the display width of the video in units of 1/65536 pixel, or 0 for audio.
func (c *config) shownWidth() uint32 {
	width := uint64(c.width) << 16
	if c.shape[1] > 0 {
		width = width * uint64(c.shape[0]) / uint64(c.shape[1])
	}
	return uint32(min(width, 1<<32-1))
}

func (w *boxBuffer) handler(c *config) {
	at := w.openFull("hdlr", 0, 0)
	w.u32(0)
	if c.width > 0 {
		w.text("vide")
	} else {
		w.text("soun")
	}
	w.zeros(3*4 + 1) // reserved, no name
	w.close(at)
}

// dataInformation appends boxes that say that the samples are in this file.
func (w *boxBuffer) dataInformation() {
	dinf := w.open("dinf")
	dref := w.openFull("dref", 0, 0)
	w.u32(1)
	url := w.openFull("url ", 0, 1)
	w.close(url)
	w.close(dref)
	w.close(dinf)
}

// sampleTable appends a sample description for the codec. The table has no samples, because the
// samples are in the fragments.
func (w *boxBuffer) sampleTable(c *config) {
	stbl := w.open("stbl")
	stsd := w.openFull("stsd", 0, 0)
	w.u32(1)
	switch c.codec {
	case flv.AVC:
		w.visual("avcC", c)
	case flv.HEVC:
		w.visual("hvcC", c)
	case flv.AAC:
		w.sound(c)
	}
	w.close(stsd)
	for _, kind := range []string{"stts", "stsc", "stco"} {
		at := w.openFull(kind, 0, 0)
		w.u32(0)
		w.close(at)
	}
	stsz := w.openFull("stsz", 0, 0)
	w.zeros(4 + 4)
	w.close(stsz)
	w.close(stbl)
}

func (w *boxBuffer) visual(record string, c *config) {
	at := w.open(c.entry)
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
	box := w.open(record)
	w.bytes(c.box)
	w.close(box)
	if c.shape[1] > 0 {
		pasp := w.open("pasp")
		w.u32(uint32(c.shape[0]))
		w.u32(uint32(c.shape[1]))
		w.close(pasp)
	}
	w.close(at)
}

func (w *boxBuffer) sound(c *config) {
	at := w.open("mp4a")
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
	esds := w.openFull("esds", 0, 0)
	w.elementaryStream(c.record)
	w.close(esds)
	w.close(at)
}

// elementaryStream appends the descriptors of ISO/IEC 14496-1 for an AudioSpecificConfig.
func (w *boxBuffer) elementaryStream(record []byte) {
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

// descriptor appends the header of a descriptor with n bytes of content: the tag and the size. The
// size takes four bytes. Each byte has seven bits of the size, and a flag that is set if another
// byte follows.
func (w *boxBuffer) descriptor(tag uint8, n int) {
	w.u8(tag)
	w.u8(uint8(n>>21) | 0x80)
	w.u8(uint8(n>>14) | 0x80)
	w.u8(uint8(n>>7) | 0x80)
	w.u8(uint8(n) & 0x7f)
}

func (w *boxBuffer) trackDefaults(id uint32, c *config) {
	at := w.openFull("trex", 0, 0)
	w.u32(id)
	w.u32(1) // description
	w.u32(0) // duration
	w.u32(0) // size
	if c.width > 0 {
		w.u32(flagsDelta)
	} else {
		w.u32(flagsKey)
	}
	w.close(at)
}
