package flv_test

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/millrace-io/millrace/media/flv"
)

// fileHeader is a complete FLV header with the previous-tag-size after it.
const fileHeader = "FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"

// rawTag builds a tag by hand.
func rawTag(kind byte, ts uint32, data string) string {
	b := []byte{kind, byte(len(data) >> 16), byte(len(data) >> 8), byte(len(data)),
		byte(ts >> 16), byte(ts >> 8), byte(ts), byte(ts >> 24), 0, 0, 0}
	b = append(b, data...)
	return string(binary.BigEndian.AppendUint32(b, uint32(len(b))))
}

const (
	script = byte(flv.TypeScript)
	video  = byte(flv.TypeVideo)
	audio  = byte(flv.TypeAudio)
)

// dataSeeds are beginnings of tag data of every kind that the parser distinguishes.
var dataSeeds = []struct {
	kind byte
	data string
}{
	{script, "\x02\x00\x0aonMetaData\x08"}, {script, "\x00\x02\x00\x0aonMetaData\x08"},
	{script, "\x02\x00\x0aonCuePoint"},
	{video, "\x17\x00\x00\x00\x00\x01"}, {video, "\x17\x01\x00\x00\x50abc"},
	{video, "\x27\x01\xff\xff\xfeabc"},
	{video, "\x17\x02\x00\x00\x00"}, {video, "\x17\x03\x00\x00\x00"}, {video, "\x17\x01"},
	{video, "\x57\x00"},
	{video, "\x1c\x00\x00\x00\x00\x01"}, {video, "\x1c\x01\x00\x00\x28abc"}, {video, "\x14abc"},
	{video, "\x22abc"},
	{video, "\x90hvc1\x01"}, {video, "\x91hvc1\x00\x00\x21abc"}, {video, "\x93avc1abc"},
	{video, "\xa1av01abc"},
	{video, "\x92vp09"}, {video, "\x94hvc1abc"}, {video, "\xd1\x00"}, {video, "\x95av01abc"},
	{video, "\x9fav01"},
	{video, "\x97\x02\x00\x00\x01\x01hvc1\x00\x00\x21abc"},
	{video, "\x97\xff\x00\x02\x00\x00\x01\x03avc1abc"},
	{video, "\x96\x01avc1\x00abc"}, {video, "\x96\x00avc1\x01abc"}, {video, "\x96\x21\x00avc1"},
	{video, "\x96\x06"},
	{video, "\x97\x00"}, {video, "\x91hv"},
	{audio, "\xaf\x00\x12\x10"}, {audio, "\xaf\x01abc"}, {audio, "\xaf\x02"}, {audio, "\xaf"},
	{audio, "\x2fabc"},
	{audio, "\xe2abc"}, {audio, "\xb2abc"}, {audio, "\x90mp4a\x12\x10"}, {audio, "\x91Opusabc"},
	{audio, "\x92fLaC"},
	{audio, "\x94ac-3"}, {audio, "\x95\x01mp4a\x00"}, {audio, "\x97\x00\x00\x01.mp3"},
	{audio, "\x93Opus"},
	{video, ""}, {audio, ""}, {script, ""}, {video | 0x20, "\x17\x01\x00\x00\x00abc"},
	{15, "whatever"},
}

// randomStream builds a well-formed stream of n tags.
func randomStream(rnd *rand.Rand, n int) []byte {
	s := fileHeader
	for i := range n {
		seed := dataSeeds[rnd.IntN(len(dataSeeds))]
		tail := make([]byte, 0)
		switch rnd.IntN(4) {
		case 0:
			tail = make([]byte, rnd.IntN(30))
		case 1:
			tail = make([]byte, rnd.IntN(3000))
		case 2:
			tail = make([]byte, rnd.IntN(40000))
		}
		for j := range tail {
			tail[j] = byte(rnd.Uint32())
		}
		s += rawTag(seed.kind, uint32(i)<<20|rnd.Uint32N(1<<20), seed.data+string(tail))
	}
	return []byte(s)
}
