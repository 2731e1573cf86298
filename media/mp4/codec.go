package mp4

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace/media/flv"
)

// A config is a parsed sequence header. It is immutable.
type config struct {
	codec  flv.Codec
	record []byte // the sequence header

	entry      string // type of the sample entry
	box        []byte // content of the codec's box
	lengthSize int    // size of the length field before each NAL unit, in bytes

	scale uint32 // units of time per second
	step  uint32 // duration of a sample if the next sample is not known, in units

	width, height uint16
	shape         [2]uint16 // pixel aspect ratio, width and height; 0 if square

	channels uint16
}

const (
	videoScale = 1000
	// videoStep is the duration of a video frame, in ms, if no frame follows: 25 frames a second.
	videoStep = 40
)

// newConfig parses a sequence header. It borrows record.
func newConfig(codec flv.Codec, record []byte) (*config, error) {
	c := &config{codec: codec, record: bytes.Clone(record), scale: videoScale, step: videoStep}
	c.box = c.record
	var why string
	switch codec {
	case flv.AVC:
		why = parseAVC(c)
	case flv.HEVC:
		why = parseHEVC(c)
	case flv.AAC:
		why = parseAAC(c)
	}
	if why != "" {
		return nil, &ConfigError{Codec: codec, Why: why}
	}
	return c, nil
}

func (c *config) same(codec flv.Codec, record []byte) bool {
	return c != nil && c.codec == codec && bytes.Equal(c.record, record)
}

func (c *config) equal(d *config) bool {
	return c == d || d != nil && c.same(d.codec, d.record)
}

func carried(t flv.Type, c flv.Codec) bool {
	if t == flv.TypeVideo {
		return c == flv.AVC || c == flv.HEVC
	}
	return c == flv.AAC
}

// parseAVC parses an AVCDecoderConfigurationRecord into c. If the record is invalid, it returns the
// reason. Otherwise it returns "".
func parseAVC(c *config) string {
	p := c.record
	if len(p) < 8 {
		return "record is cut short"
	}
	if p[0] != 1 {
		return "record is not of version 1"
	}
	c.entry, c.lengthSize = "avc1", int(p[4]&3)+1
	sets := int(p[5] & 0x1f)
	if sets == 0 {
		return "no sequence parameter set"
	}
	n, p := int(binary.BigEndian.Uint16(p[6:])), p[8:]
	if n < 4 || n > len(p) {
		return "sequence parameter set is cut short"
	}
	return parseAVCSPS(c, unescape(p[:n]))
}

// avcHighProfile reports whether the sequence parameter sets of the given profile have the fields
// for chroma format, bit depth and scaling matrices.
func avcHighProfile(profile uint32) bool {
	switch profile {
	case 100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135:
		return true
	}
	return false
}

// parseAVCSPS parses a sequence parameter set (ITU-T H.264, 7.3.2.1.1). It returns the reason if
// the parameter set is invalid, or "".
func parseAVCSPS(c *config, rbsp []byte) string {
	b := &bitReader{p: rbsp}
	b.skip(8) // NAL header
	profile := b.u(8)
	b.skip(16) // constraints, level
	b.ue()     // id
	chroma, planes := uint32(1), false
	if avcHighProfile(profile) {
		if chroma = b.ue(); chroma == 3 {
			planes = b.flag()
		}
		b.ue()    // depth of luma
		b.ue()    // depth of chroma
		b.skip(1) // bypass flag
		if b.flag() {
			skipScalingLists(b, chroma)
		}
	}
	b.ue() // frame number
	switch b.ue() {
	case 0:
		b.ue()
	case 1:
		b.skip(1)
		b.se()
		b.se()
		for n := b.ue(); n > 0 && !b.short; n-- {
			b.se()
		}
	}
	b.ue()    // reference frames
	b.skip(1) // flag for gaps in frame numbers
	width, height := uint64(b.ue())+1, uint64(b.ue())+1
	fields := uint64(1) // a frame that may be interlaced has two fields
	if !b.flag() {
		fields = 2
		b.skip(1)
	}
	b.skip(1) // direct inference flag
	crop := readCrop(b)
	unitX, unitY := cropUnits(chroma, planes)
	width, height = 16*width, 16*height*fields
	if why := c.setSize(b, width, height, crop, unitX, unitY*fields); why != "" {
		return why
	}
	if b.flag() { // video usability information
		c.readAspect(b)
	}
	return ""
}

func skipScalingLists(b *bitReader, chroma uint32) {
	lists := 8
	if chroma == 3 {
		lists = 12
	}
	for i := range lists {
		if !b.flag() {
			continue
		}
		size := 16
		if i >= 6 {
			size = 64
		}
		last, next := int32(8), int32(8)
		for j := 0; j < size && !b.short; j++ {
			if next != 0 {
				next = (last + b.se()) & 0xff
			}
			if next != 0 {
				last = next
			}
		}
	}
}

// readCrop reads the crop margins of a sequence parameter set: left, right, top, bottom.
func readCrop(b *bitReader) (crop [4]uint64) {
	if b.flag() {
		for i := range crop {
			crop[i] = uint64(b.ue())
		}
	}
	return crop
}

// cropUnits returns the number of luma samples per unit of the horizontal and vertical margins.
func cropUnits(chroma uint32, planes bool) (x, y uint64) {
	switch {
	case planes || chroma == 0 || chroma == 3:
		return 1, 1
	case chroma == 2:
		return 2, 1
	}
	return 2, 2
}

// setSize sets the size of the video after cropping: the width and the height minus the crop
// margins (the edges that are not shown). If the size is invalid, setSize returns the reason.
// Otherwise it returns "".
func (c *config) setSize(b *bitReader, width, height uint64, crop [4]uint64, unitX,
	unitY uint64) string {
	cropX, cropY := (crop[0]+crop[1])*unitX, (crop[2]+crop[3])*unitY
	if b.short {
		return "sequence parameter set is cut short"
	}
	if cropX >= width || cropY >= height || width-cropX > 0xffff || height-cropY > 0xffff {
		return "invalid video size"
	}
	c.width, c.height = uint16(width-cropX), uint16(height-cropY)
	return ""
}

// Pixel aspect ratios by number: ITU-T H.264, table E-1.
var sampleShapes = [...][2]uint16{
	{0, 0}, {1, 1}, {12, 11}, {10, 11}, {16, 11}, {40, 33}, {24, 11}, {20, 11}, {32, 11}, {80, 33},
	{18, 11}, {15, 11},
	{64, 33}, {160, 99}, {4, 3}, {3, 2}, {2, 1},
}

// readAspect reads the pixel aspect ratio. An unknown ratio counts as 1:1.
func (c *config) readAspect(b *bitReader) {
	if !b.flag() {
		return
	}
	var shape [2]uint16
	if n := b.u(8); n == 255 {
		shape = [2]uint16{uint16(b.u(16)), uint16(b.u(16))}
	} else if int(n) < len(sampleShapes) {
		shape = sampleShapes[n]
	}
	if !b.short && shape[0] > 0 && shape[1] > 0 && shape[0] != shape[1] {
		c.shape = shape
	}
}

const (
	hevcVPS       = 32
	hevcSPS       = 33
	hevcPPS       = 34
	hevcPrefixSEI = 39
	hevcSuffixSEI = 40
)

// parseHEVC parses an HEVCDecoderConfigurationRecord into c. If the record is invalid, it returns
// the reason. Otherwise it returns "".
//
// parseHEVC also builds c.box, the record for the init segment. It sorts the parameter sets by type
// and marks them as complete, as the sample entry hvc1 requires (ISO/IEC 14496-15, 8.3.3.1.2 and
// 8.4.1). Many encoders do neither.
//
// If the encoder's record has no video parameter set or no picture parameter set, the frames
// contain the missing parameter sets. In this case, the sample entry is hev1, and the parameter
// sets are not marked as complete.
func parseHEVC(c *config) string {
	const head = 22 // bytes before the number of arrays
	p := c.record
	if len(p) <= head {
		return "record is cut short"
	}
	if p[0] != 1 {
		return "record is not of version 1"
	}
	c.lengthSize = int(p[head-1]&3) + 1
	var units [hevcSuffixSEI + 1][][]byte // NAL units by type
	arrays := int(p[head])
	p = p[head+1:]
	for range arrays {
		if len(p) < 3 {
			return "record is cut short"
		}
		kind, n := p[0]&0x3f, int(binary.BigEndian.Uint16(p[1:]))
		p = p[3:]
		for range n {
			if len(p) < 2 {
				return "record is cut short"
			}
			n := int(binary.BigEndian.Uint16(p))
			if p = p[2:]; n > len(p) {
				return "record is cut short"
			}
			if n > 0 && int(kind) < len(units) {
				units[kind] = append(units[kind], p[:n])
			}
			p = p[n:]
		}
	}
	if len(units[hevcSPS]) == 0 {
		return "no sequence parameter set"
	}
	complete := byte(0)
	if c.entry = "hev1"; len(units[hevcVPS]) > 0 && len(units[hevcPPS]) > 0 {
		c.entry, complete = "hvc1", 0x80
	}
	c.box = append(bytes.Clone(c.record[:head]), 0)
	for _, kind := range []byte{hevcVPS, hevcSPS, hevcPPS, hevcPrefixSEI, hevcSuffixSEI} {
		if len(units[kind]) == 0 {
			continue
		}
		c.box[head]++
		c.box = append(c.box, complete|kind)
		c.box = binary.BigEndian.AppendUint16(c.box, uint16(len(units[kind])))
		for _, unit := range units[kind] {
			c.box = binary.BigEndian.AppendUint16(c.box, uint16(len(unit)))
			c.box = append(c.box, unit...)
		}
	}
	return parseHEVCSPS(c, unescape(units[hevcSPS][0]))
}

// parseHEVCSPS parses an HEVC sequence parameter set up to the conformance window (ITU-T H.265,
// 7.3.2.2.1). It returns the reason if the parameter set is invalid, or "".
func parseHEVCSPS(c *config, rbsp []byte) string {
	b := &bitReader{p: rbsp}
	b.skip(16 + 4) // NAL header, video parameter set
	layers := int(b.u(3))
	b.skip(1)      // nesting
	b.skip(88 + 8) // profile, level
	var profiles, levels int
	for range layers {
		profiles += int(b.u(1))
		levels += int(b.u(1))
	}
	if layers > 0 {
		b.skip(2 * (8 - layers))
	}
	b.skip(88*profiles + 8*levels)
	b.ue() // id
	chroma, planes := b.ue(), false
	if chroma == 3 {
		planes = b.flag()
	}
	width, height := uint64(b.ue()), uint64(b.ue())
	crop := readCrop(b)
	unitX, unitY := cropUnits(chroma, planes)
	return c.setSize(b, width, height, crop, unitX, unitY)
}

// Sampling rates by number: ISO/IEC 14496-3, table 1.18.
var aacRates = [...]uint32{96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000,
	11025, 8000, 7350}

// Audio object types that change the meaning of the rest of an AudioSpecificConfig.
const (
	// Spectral band replication (SBR). The first sampling rate in the AudioSpecificConfig is the
	// rate of the core codec, half of the output rate.
	aacSBR = 5
	aacLD  = 23 // low delay: 512 samples per frame
	aacPS  = 29 // parametric stereo on top of SBR
	aacELD = 39
)

// parseAAC parses the sampling rate, the channels and the frame length from an AudioSpecificConfig
// into c. If the record is invalid, it returns the reason. Otherwise it returns "". parseAAC
// refuses channel configurations that browsers do not support, because a browser would reject the
// entire file.
func parseAAC(c *config) string {
	b := &bitReader{p: c.record}
	kind := aacKind(b)
	c.scale = aacRate(b)
	c.channels = uint16(b.u(4))
	if kind == aacSBR || kind == aacPS {
		aacRate(b) // skip the output rate
		kind = aacKind(b)
	}
	shorter := b.flag()
	switch {
	case b.short:
		return "cut short"
	case kind == 0:
		return "audio object type 0"
	case c.scale == 0:
		return "no sampling rate"
	}
	switch n := c.channels; {
	case n == 0 || n > 7:
		return fmt.Sprintf("channel configuration %d, browsers know 1 to 7", n)
	case n == 7:
		c.channels = 8
	}
	c.step = 1024
	if shorter {
		c.step = 960
	}
	if kind == aacLD || kind == aacELD {
		c.step /= 2
	}
	return ""
}

func aacKind(b *bitReader) uint32 {
	if kind := b.u(5); kind != 31 {
		return kind
	}
	return 32 + b.u(6)
}

// aacRate reads a sampling rate. The rate is coded as an index of aacRates, or as 15 followed by
// the rate itself. If the index is unknown, aacRate returns 0.
func aacRate(b *bitReader) uint32 {
	n := b.u(4)
	if n == 15 {
		return b.u(24)
	}
	if int(n) < len(aacRates) {
		return aacRates[n]
	}
	return 0
}

// A bitReader reads bits, most significant first. After the last bit, it returns zeros.
type bitReader struct {
	p     []byte
	at    int  // position in bits
	short bool // a read went beyond the last bit
}

// u reads an unsigned number of n bits. n must be at most 32.
func (b *bitReader) u(n int) uint32 {
	var v uint32
	for range n {
		v <<= 1
		if b.at>>3 >= len(b.p) {
			b.short = true
			continue
		}
		v |= uint32(b.p[b.at>>3]>>(7-b.at&7)) & 1
		b.at++
	}
	return v
}

func (b *bitReader) flag() bool { return b.u(1) == 1 }

func (b *bitReader) skip(n int) {
	b.at += n
	if b.at > 8*len(b.p) {
		b.at, b.short = 8*len(b.p), true
	}
}

// ue reads an unsigned Exp-Golomb number: n zeros, a one, and n bits.
func (b *bitReader) ue() uint32 {
	zeros := 0
	for !b.flag() {
		if zeros++; zeros > 31 || b.short {
			b.short = true
			return 0
		}
	}
	return 1<<zeros - 1 + b.u(zeros)
}

// se reads a signed Exp-Golomb number. The codes are 0, 1, -1, 2, -2, ...
func (b *bitReader) se() int32 {
	v := b.ue()
	if v&1 == 1 {
		return int32(v>>1) + 1
	}
	return -int32(v >> 1)
}

// unescape returns a copy of nal without emulation prevention bytes (the 03 in 00 00 03).
func unescape(nal []byte) []byte {
	out := make([]byte, 0, len(nal))
	zeros := 0
	for _, c := range nal {
		if zeros >= 2 && c == 3 {
			zeros = 0
			continue
		}
		if c == 0 {
			zeros++
		} else {
			zeros = 0
		}
		out = append(out, c)
	}
	return out
}
