package mp4

import "encoding/binary"

// parseAVC reads the picture's size out of an AVCDecoderConfigurationRecord, and fills c with it. The record itself goes into
// the avcC box as it is. It returns what is wrong with it, or "".
func parseAVC(c *config) string {
	p := c.record
	if len(p) < 8 {
		return "record is cut short"
	}
	if p[0] != 1 {
		return "record is not of version 1"
	}
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

// Profiles whose parameter sets say the chroma format, the depth and the scaling matrices.
func avcHighProfile(profile uint32) bool {
	switch profile {
	case 100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135:
		return true
	}
	return false
}

// parseAVCSPS follows ITU-T H.264, 7.3.2.1.1.
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
		b.skip(1) // bypass
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
	b.skip(1) // gaps
	width, height := uint64(b.ue())+1, uint64(b.ue())+1
	fields := uint64(1) // a frame is two fields unless every picture is a frame
	if !b.flag() {
		fields = 2
		b.skip(1)
	}
	b.skip(1) // direct inference
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

// skipScalingLists passes over H.264's scaling matrices.
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

// readCrop reads the flag and the four margins (left, right, top, bottom) that both codecs have.
func readCrop(b *bitReader) (crop [4]uint64) {
	if b.flag() {
		for i := range crop {
			crop[i] = uint64(b.ue())
		}
	}
	return crop
}

// cropUnits says how many luma samples one unit of the margins is: as many as one of chroma.
func cropUnits(chroma uint32, planes bool) (x, y uint64) {
	switch {
	case planes || chroma == 0 || chroma == 3:
		return 1, 1
	case chroma == 2:
		return 2, 1
	}
	return 2, 2
}

// setSize takes the margins off and keeps the size of the picture.
func (c *config) setSize(b *bitReader, width, height uint64, crop [4]uint64, unitX, unitY uint64) string {
	cropX, cropY := (crop[0]+crop[1])*unitX, (crop[2]+crop[3])*unitY
	if b.short {
		return "sequence parameter set is cut short"
	}
	if cropX >= width || cropY >= height || width-cropX > 0xffff || height-cropY > 0xffff {
		return "size of the picture makes no sense"
	}
	c.width, c.height = uint16(width-cropX), uint16(height-cropY)
	return ""
}

// Shapes of a sample by number: ITU-T H.264, table E-1.
var sampleShapes = [...][2]uint16{
	{0, 0}, {1, 1}, {12, 11}, {10, 11}, {16, 11}, {40, 33}, {24, 11}, {20, 11}, {32, 11}, {80, 33}, {18, 11}, {15, 11},
	{64, 33}, {160, 99}, {4, 3}, {3, 2}, {2, 1},
}

// readAspect reads the shape of a sample, the first thing in the usability information. One that is not known is square.
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
