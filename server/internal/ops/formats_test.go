package ops

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/server/internal/live"
)

// sample returns the contents of testdata/streams-1.json as the current type.
func sample() Report {
	return Report{
		Server: ServerReport{Version: "v1.2.3", Node: "http://10.0.0.5:8080", Uptime: 12.5,
			Streams: 2, Viewers: 7,
			BytesOut: 123_456, Memory: 1 << 20, MemoryOf: 1 << 30, MemoryHi: 2 << 20,
			Files: "listed", Blobs: true,
			Publish: "token", Read: "open", RTMP: 1935, RTMPS: 443,
			MemoryOwners: map[string]int64{"streams": 1000, "heap": 2000}},
		Streams: []live.StreamInfo{
			{Name: "cam", Format: "flv", Video: "h264 640x360", Audio: "aac",
				Publisher: "10.0.0.9:5000", Returns: 1,
				Takeovers: 2, Silent: 0.02, Uptime: 60.5, BitRate: 2_500_000, Viewers: 5,
				ViewersMP4: 1, ViewersRTMP: 2,
				ViewersHLS: 3, LagMax: 0.5, BehindLive: 2, MP4Time: 60.25, KeyInterval: 2,
				KeptBytes: 100_000, Memory: 200_000,
				MemoryHigh: 300_000, Further: 1, GroupsCut: 4, FramesLost: 5, Stalled: 1,
				Epoch: 42, Edges: []string{"http://10.0.0.6:8080"}},
			{Name: "away", Format: "flv", LeftOut: "audio", Waiting: 3, Epoch: 41,
				Owner: "http://10.0.0.7:8080"},
		},
	}
}

// Nodes of two versions read each other's reports. Old reports keep their meaning, new fields are
// ignored, and current reports have every field of the newest file. For a version 2, keep
// streams-1.json, write streams-2.json with the new fields, and compare sample with that file.
func TestReportsOfOtherVersions(t *testing.T) {
	files, err := filepath.Glob("testdata/streams-*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no reports of other versions:", err)
	}
	want := sample()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		more := bytes.Replace(text, []byte(`"server"`),
			[]byte(`"added": {"later": [1, {}]}, "server"`), 1)
		more = bytes.Replace(more, []byte(`"name"`), []byte(`"added": {"later": null}, "name"`), 1)
		for name, text := range map[string][]byte{"as it is": text, "with more fields": more} {
			var got NodeReport
			if err := got.read(bytes.NewReader(text)); err != nil {
				t.Errorf("%s, %s: %v, want the report of another version read", file, name, err)
			}
			if !reflect.DeepEqual(got.Server, want.Server) ||
				!reflect.DeepEqual(got.Streams, want.Streams) {
				t.Errorf("%s, %s:\n%+v, want\n%+v", file, name, got, want)
			}
		}
	}
	written, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := os.ReadFile(slices.MaxFunc(files, func(a, b string) int {
		return len(a) - len(b) + strings.Compare(a, b)
	}))
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if json.Unmarshal(written, &a) != nil || json.Unmarshal(newest, &b) != nil ||
		!reflect.DeepEqual(a, b) {
		t.Errorf("a node writes\n%s\nand the newest report is\n%s", written, newest)
	}
}
