package rtmp_test

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/media/rtmp"
)

// published is a publishing client's session, and the expected results of Next.
type published struct {
	name string
	in   string // after publish; chunks have 128 bytes until the client changes that
	got  []slowMessage
}

// picture is a video message as Next returns it.
func picture(ts uint32, body string) slowMessage {
	return slowMessage{rtmp.Message{Type: rtmp.TypeVideo, ChunkStream: 6, Stream: 1, Timestamp: ts,
		Size: len(body)}, body}
}

func on(id int, kind rtmp.Type, m slowMessage) slowMessage {
	m.ChunkStream, m.Type = id, kind
	return m
}

// Cases that other servers have handled wrongly, or that no specification describes.
func TestWhatClientsDo(t *testing.T) {
	long := strings.Repeat("picture ", 40) // three chunks
	const day, late = uint32(28 * 3600 * 1000), uint32(0x01000000)
	first := func(ts uint32, size int) string { return string(rawHeader(0, 6, ts, size, 9, 1)) }
	sizes := func(n uint32, chunk int) string {
		return control(1, n) + rawChunks(6, 9, 40, 1, long, chunk, false)
	}
	aac := rawChunks(4, 8, 0, 1, "\xaf\x00", 128, false)
	hevc := []string{"\x1c\x00\x00\x00\x00 classic, codec 12", "\x90hvc1 enhanced",
		"\x91hvc1\x00\x00\x21 enhanced",
		"\x96\x11hvc1\x00\x00\x00\x01x multitrack", "\x97\x02\x00\x00\x01\x01hvc1 ModEx"}
	var hevcIn string
	var hevcGot []slowMessage
	for _, body := range hevc {
		hevcIn += rawChunks(6, 9, 7, 1, body, 128, false)
		hevcGot = append(hevcGot, picture(7, body))
	}
	for _, tt := range []published{
		// Streams that failed after 4 hours and 39 minutes.
		{"form 3 repeats the extended timestamp",
			rawChunks(6, 9, late, 1, long, 128, true) + rawChunks(6, 9, late+40, 1, long, 128,
				true),
			[]slowMessage{picture(late, long), picture(late+40, long)}},
		{"form 3 does not repeat the extended timestamp",
			rawChunks(6, 9, late, 1, long, 128, false) + rawChunks(6, 9, late+40, 1, long, 128,
				false),
			[]slowMessage{picture(late, long), picture(late+40, long)}},
		{"form 3 repeats the difference that form 1 extended",
			first(5, 0) + string(rawHeader(1, 6, late, len(long), 9, 0)) + long[:128] +
				"\xc6\x01\x00\x00\x00" + long[128:256] + "\xc6\x01\x00\x00\x00" + long[256:],
			[]slowMessage{picture(5, ""), picture(5+late, long)}},
		{"form 3 has the time where form 1 extended a difference",
			first(5, 0) + string(rawHeader(1, 6, late, len(long), 9, 0)) + long[:128] +
				"\xc6\x01\x00\x00\x05" + long[128:256] + "\xc6\x01\x00\x00\x05" + long[256:],
			[]slowMessage{picture(5, ""), picture(5+late, long)}},
		{"16777215 itself is extended", rawChunks(6, 9, 0xffffff, 1, long, 128, true),
			[]slowMessage{picture(0xffffff, long)}},
		{"an extended timestamp that need not be",
			"\x06\xff\xff\xff\x00\x00\x01\x09\x01\x00\x00\x00\x00\x00\x00\x28x",
			[]slowMessage{picture(40, "x")}},

		{"an extended timestamp of form 1 is a difference",
			first(1000, 0) + string(rawHeader(1, 6, late, 1, 9, 0)) + "x",
			[]slowMessage{picture(1000, ""), picture(1000+late, "x")}},
		{"an extended timestamp of form 2 is a difference", first(1000, 1) +
			"w" + string(rawHeader(2, 6, late, 0, 0, 0)) + "x",
			[]slowMessage{picture(1000, "w"), picture(1000+late, "x")}},

		{"a chunk stream begins with form 1", string(rawHeader(1, 7, 40, 1, 9, 0)) + "x",
			[]slowMessage{{rtmp.Message{Type: 9, ChunkStream: 7, Timestamp: 40, Size: 1}, "x"}}},
		{"a chunk stream begins with form 2", string(rawHeader(2, 7, 40, 0, 0, 0)) + first(1, 1) +
			"x", []slowMessage{picture(1, "x")}},
		{"a chunk stream begins with form 3", string(rawHeader(3, 7, 0, 0, 0, 0)) + first(1, 1) +
			"x", []slowMessage{picture(1, "x")}},
		{"a ping begins with form 1", "\x42\x00\x00\x00\x00\x00\x06\x04\x00\x06abcd" + first(1, 1) +
			"x", []slowMessage{picture(1, "x")}},
		{"form 3 after form 0 adds the time of form 0", first(40, 1) + "x\xc6y",
			[]slowMessage{picture(40, "x"), picture(80, "y")}},
		{"form 3 after form 1 adds the difference again", first(40, 1) +
			"x" + string(rawHeader(1, 6, 33, 1, 9, 0)) + "y\xc6z",
			[]slowMessage{picture(40, "x"), picture(73, "y"), picture(106, "z")}},

		{"chunks of 128 bytes, never announced", rawChunks(6, 9, 40, 1, long, 128, false),
			[]slowMessage{picture(40, long)}},
		{"chunks of 1 byte", sizes(1, 1), []slowMessage{picture(40, long)}},
		{"chunks of 64 bytes", sizes(64, 64), []slowMessage{picture(40, long)}},
		{"chunks of 65537 bytes", sizes(65537, 65537), []slowMessage{picture(40, long)}},
		{"chunks of 16777215 bytes", sizes(1<<24-1, 1<<24-1), []slowMessage{picture(40, long)}},
		{"chunks of 2147483647 bytes", sizes(1<<31-1, 1<<24), []slowMessage{picture(40, long)}},
		{"the chunk size changes in the middle of a message",
			first(40, len(long)) + long[:128] + control(1, 4096) + "\xc6" + long[128:],
			[]slowMessage{picture(40, long)}},

		{"chunk stream 32", rawChunks(32, 9, 40, 1, long, 128, false),
			[]slowMessage{on(32, 9, picture(40, long))}},
		{"chunk stream 63", rawChunks(63, 9, 40, 1, long, 128, false),
			[]slowMessage{on(63, 9, picture(40, long))}},
		{"chunk stream 64", rawChunks(64, 9, 40, 1, long, 128, false),
			[]slowMessage{on(64, 9, picture(40, long))}},
		{"chunk stream 319", rawChunks(319, 9, 40, 1, long, 128, false),
			[]slowMessage{on(319, 9, picture(40, long))}},
		{"chunk stream 320", rawChunks(320, 9, 40, 1, long, 128, false),
			[]slowMessage{on(320, 9, picture(40, long))}},
		{"chunk stream 65599", rawChunks(65599, 9, 40, 1, long, 128, false),
			[]slowMessage{on(65599, 9, picture(40, long))}},

		{"data that is no AMF, as ffmpeg's timecodes",
			rawChunks(6, 18, 40, 1, "\x00\x01\x02\x03", 128, false),
			[]slowMessage{on(6, 18, picture(40, "\x00\x01\x02\x03"))}},
		{"data of AMF3", rawChunks(6, 15, 40, 1, "\x00\x02\x00\x01x", 128, false),
			[]slowMessage{on(6, 18, picture(40, "\x02\x00\x01x"))}},
		{"data of AMF3 that is empty", rawChunks(6, 15, 40, 1, "", 128, false),
			[]slowMessage{on(6, 18, picture(40, ""))}},
		{"metadata as a strict array", rawChunks(6, 18, 0, 1, amf("onMetaData", values{1, "x"}),
			128, false),
			[]slowMessage{on(6, 18, picture(0, amf("onMetaData", values{1, "x"})))}},
		{"metadata that is null", rawChunks(6, 18, 0, 1, amf("onMetaData", nil), 128, false),
			[]slowMessage{on(6, 18, picture(0, amf("onMetaData", nil)))}},
		{"metadata that is empty", rawChunks(6, 18, 0, 1, "", 128, false) + first(0, 1) + "x",
			[]slowMessage{on(6, 18, picture(0, "")), picture(0, "x")}},
		{"empty sound and pictures", rawChunks(6, 8, 0, 1, "", 128, false) + first(0, 0),
			[]slowMessage{on(6, 8, picture(0, "")), picture(0, "")}},
		{"an AAC header without a configuration", aac,
			[]slowMessage{on(4, 8, picture(0, "\xaf\x00"))}},
		{"HEVC by number, FourCC, tracks and ModEx", hevcIn, hevcGot},
		{"a negative composition time", first(40, 6) + "\x27\x01\xff\xff\xfex",
			[]slowMessage{picture(40, "\x27\x01\xff\xff\xfex")}},

		{"an aborted message", first(40, len(long)) + long[:128] + control(2, 6) + first(41, 1) +
			"x", []slowMessage{picture(41, "x")}},
		{"an abort of nothing", control(2, 6) + control(2, 60_000) + control(2,
			1<<32-1) + rawMessage(2, 0, "") + first(41, 1) + "x",
			[]slowMessage{picture(41, "x")}},
		{"user control events that are not documented",
			userControl(31, "\x00\x00\x00\x01") + userControl(32, "") + userControl(0xffff,
				"more than there should be") +
				string(rawHeader(0, 2, 0, 0, 4, 0)) + string(rawHeader(0, 2, 0, 1, 4, 0)) +
				"\x00" + first(41, 1) + "x", []slowMessage{picture(41, "x")}},
		{"messages that are not known", rawChunks(6, 99, 0, 1, long, 128, false) + rawChunks(6, 0,
			0, 1, "", 128, false) +
			rawChunks(6, 16, 0, 1, "so", 128, false) + first(41, 1) + "x",
			[]slowMessage{picture(41, "x")}},
		{"set peer bandwidth", rawMessage(6, 0, "\x00\x10\x00\x00\x02") + rawMessage(3, 0,
			"\x00\x00\x00\x00") + first(41, 1) + "x",
			[]slowMessage{picture(41, "x")}},
		{"commands that are none", rawChunks(3, 20, 0, 0, "", 128, false) + rawChunks(3, 20, 0, 0,
			"\x05\x05", 128, false) +
			rawChunks(3, 20, 0, 0, "\x02\xff\xffx", 128, false) + rawChunks(3, 17, 0, 0, "", 128,
			false) + first(41, 1) + "x",
			[]slowMessage{picture(41, "x")}},

		{"times that go backwards", first(5000, 1) + "x" + first(40, 1) + "y",
			[]slowMessage{picture(5000, "x"), picture(40, "y")}},
		{"times after 28 hours", first(day, 1) + "x" + string(rawHeader(2, 6, 40, 0, 0, 0)) + "y",
			[]slowMessage{picture(day, "x"), picture(day+40, "y")}},
		{"times that wrap", first(1<<32-10, 1) + "x" + string(rawHeader(2, 6, 40, 0, 0, 0)) + "y",
			[]slowMessage{picture(1<<32-10, "x"), picture(30, "y")}},
		{"a difference that goes backwards", first(1000, 1) +
			"x" + string(rawHeader(2, 6, 1<<32-100, 0, 0, 0)) + "y",
			[]slowMessage{picture(1000, "x"), picture(900, "y")}},
		{"an aggregate message", rawChunks(6, 22, 1000, 1,
			"\x08\x00\x00\x01\x00\x00\x10\x00\x00\x00\x00a\x00\x00\x00\x0c"+
				"\x09\x00\x00\x01\x00\x00\x20\x00\x00\x00\x00b\x00\x00\x00\x0c", 128, false),
			[]slowMessage{on(6, 8, picture(1000, "a")), on(6, 9, picture(1016, "b"))}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := talk(t, publishTo(app("live"),
				"camera")+tt.in+string(rawHeader(0, 200, 9, 0, 8, 1)), grant)
			if v.accepted != nil {
				t.Fatal(v.accepted)
			}
			end := on(200, 8, picture(9, ""))
			sameResult(t, v.got, v.end, append(tt.got, end), slowError(v.end))
			if v.end.Error() != "unexpected EOF" {
				t.Errorf("it ends with %v", v.end)
			}
		})
	}
}

// Calls that clients make before they publish. Calls that expect an answer get one.
func TestWhatClientsCall(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   string
		said []string
	}{
		{"_checkbw, which some wait for", command("_checkbw", 7, nil),
			[]string{"0: _result 7 null null"}},
		{"a call that is not known", command("whoAreYou", 7, nil, 1, "x"),
			[]string{"0: _result 7 null null"}},
		{"a call that wants no answer", command("whoAreYou", 0, nil), nil},
		{"onBWDone", command("onBWDone", 0, nil), nil},
		{"answers to nothing", command("_result", 7, nil) + command("_error", 8, nil), nil},
		{"a call without arguments", rawMessage(20, 0, amf("whoAreYou", 7)),
			[]string{"0: _result 7 null null"}},
		{"a call without a number", rawMessage(20, 0, amf("whoAreYou")), nil},
		{"a number where the name is", rawMessage(20, 0, amf(7, 7)), nil},
		{"a call with damaged arguments", rawMessage(20, 0, amf("whoAreYou", 7, nil)+
			"\x02\xff\xff"), []string{"0: _result 7 null null"}},
		{"a ping", userControl(6, "\x00\x00\x00\x07"), []string{"event 7 of 7"}},
		{"a ping that is too long", userControl(6, "\x00\x00\x00\x07more"),
			[]string{"event 7 of 7"}},
		{"a ping that is too short", userControl(6, "\x00"), nil},
		{"an answer to a ping", userControl(7, "\x00\x00\x00\x07"), nil},
		{"pictures before publish", rawMessage(9, 0, "x"), nil},
		{"pause before there is a stream", command("pause", 0, nil, 1), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := talk(t, command("connect", 1, app("live"))+tt.in+command("createStream", 2,
				nil)+commandOn(1, "publish", 3, nil, "camera"), grant)
			if v.accepted != nil {
				t.Fatal(v.accepted)
			}
			sameLines(t, v.said, lines(connected, tt.said, "0: _result 2 null 1", publishing)...)
		})
	}
}
