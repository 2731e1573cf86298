package soak

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// small is a run on a double that has a fault.
func small(t *testing.T, fault string) Config {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Defaults()
	cfg.Program, cfg.Env = []string{program}, []string{asDouble + "=" + fault}
	cfg.For, cfg.Cycle, cfg.Settle = 5*time.Minute, 300*time.Millisecond, time.Second
	cfg.Streams, cfg.Viewers, cfg.Rate = 2, 3, 1_000_000
	cfg.NoRedis, cfg.NoRestarts = true, true
	return cfg
}

// What a server does wrong is found, and called by its name.
func TestFaultsAreFound(t *testing.T) {
	for fault, says := range map[string]string{
		"goroutine":       `goroutines: `,
		"descriptor":      `descriptors: `,
		"files":           `files open: `,
		"pool":            `pool in use: `,
		"busy":            `1 streams, viewers, downloads and uploads are in progress, says the server`,
		"log":             `its log says: `,
		"panic":           `panic: as a fault`,
		"status":          `status 500`,
		"blob byte":       `is not what it should be`,
		"torn":            `blob soak/directory/`,
		"stale":           `had been confirmed or seen`,
		"lost":            `confirmed or seen`,
		"lost at restart": `cycle \d+: after a restart: blob soak/.* is not there`,
		"lost at the end": `cycle \d+: blob soak/.* is not there`,
		"kept broken put": `blob soak/.* has \d+ bytes, but was put with \d+`,
		"expired":         `is there .* after its time of .* was over`,
		"early":           `is gone before its time of .* is over`,
		"file byte":       `is not what it should be`,
		"short file":      `file .* ended at byte \d+, want \d+`,
		"content-range":   `Content-Range is "bytes 0-0/1"`,
		"head":            `HEAD says \d+ bytes, want \d+`,
		"plain byte":      `soak-1: `,
		"last byte":       `soak-1: the stream ended properly after \d+, and was sent to \d+`,
		"cut":             `\d+ viewers of plain bytes and MP4 were disconnected, and the server says 0`,
		"summary":         `publishing soak-\d: the server got \d+ (tags|bytes), want \d+`,
		"frame":           `which is no key frame, after tag`,
		"group":           `viewers missed`,
		"MP4 byte":        `soak-0.mp4: the sample of tag \d+ .* differs from byte`,
		"MP4 fragment":    `soak-0.mp4: the sample of tag \d+, which is no key frame, after`,
		"MP4 group":       `viewers missed`,
		"MP4 twice":       `soak-0.mp4: the sample of tag \d+ after that of tag \d+`,
		"MP4 header":      `soak-0.mp4: a box "moov" .* where moof is due`,
		"MP4 late":        `soak-0.mp4: the sample of tag \d+ is at \d+ ms, \d+ ms from where it belongs`,
		"MP4 early":       `soak-0.mp4: the sample of tag \d+ begins at \d+, before`,
		"MP4 box":         `soak-0.mp4: .* the boxes do not fit`,
		"MP4 last":        `soak-0.mp4: the stream ended properly after \d+, and was sent to \d+`,
		"MP4 cut":         `\d+ viewers of plain bytes and MP4 were disconnected, and the server says 0`,

		"HTTP/2 frame":      `watching soak-0 over HTTP/2: .* which is no key frame, after tag`,
		"HTTP/2 group":      `viewers missed`,
		"HTTP/2 plain byte": `watching soak-1 over HTTP/2: `,
		"HTTP/2 cut":        `\d+ viewers of plain bytes and MP4 were disconnected, and the server says 0`,
		"HTTP/2 MP4 byte":   `watching soak-0 as MP4 over HTTP/2: soak-0.mp4: the sample of tag \d+ .* differs`,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cfg := small(t, fault)
			cfg.Cycles = 30 // by far more than it takes
			switch fault {
			case "group", "MP4 group", "HTTP/2 group":
				cfg.Cycle = 1200 * time.Millisecond // which has several
			case "lost at restart":
				cfg.NoRestarts = false
			}
			if strings.HasPrefix(fault, "HTTP/2 ") {
				cfg.Viewers = 8 // of which some come that way and stay
			}
			cfg.Keep = filepath.Join(t.TempDir(), "kept")
			report, err := Run(t.Context(), cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(report.Reasons, "\n"); !regexp.MustCompile(says).MatchString(all) {
				t.Errorf("want %q:\n%s", says, all)
			}
			if _, err := os.Stat(filepath.Join(cfg.Keep, "directory.log")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server that does not end as it should is one that has failed.
func TestExitStatusIsFound(t *testing.T) {
	t.Parallel()
	cfg := small(t, "exit status")
	cfg.Cycles = 1
	report, err := Run(t.Context(), cfg, nil)
	if all := strings.Join(report.Reasons, "\n"); err != nil || !strings.Contains(all, "exit status 3") {
		t.Errorf("%v, %s", err, all)
	}
}

// What is never let go of makes a trend.
func TestTrendsAreFound(t *testing.T) {
	for fault, says := range map[string][]string{
		"memory":  {"heap grows"},
		"rss":     {"RSS grows", "anonymous grows"},
		"threads": {"threads grows"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS != "linux" && fault != "memory" {
				t.Skip("only Linux tells of a process' memory and threads")
			}
			cfg := small(t, fault)
			cfg.Cycles, cfg.Cycle, cfg.Settle = warmUp+minTrend+1, 200*time.Millisecond, time.Minute
			report, err := Run(t.Context(), cfg, nil)
			all := strings.Join(report.Reasons, "\n")
			for _, want := range says {
				if err != nil || !strings.Contains(all, want) {
					t.Errorf("%v, %s, want %q\n%+v", err, all, want, report.Servers)
				}
			}
		})
	}
}

// A server without a fault passes, restarts and all.
func TestNothingIsFound(t *testing.T) {
	t.Parallel()
	cfg := small(t, "")
	cfg.NoRestarts = false
	cfg.Cycles, cfg.Settle = pointsWanted+2, time.Minute // the second and third have restarts
	cycles := 0
	report, err := Run(t.Context(), cfg, func(p Progress) {
		if p.Cycle != nil {
			cycles++
		}
	})
	if err != nil || report.Verdict != Passed || len(report.Reasons)+len(report.Unjudged) > 0 || report.Interrupted {
		t.Errorf("%v, %s, %q, %q", err, report.Verdict, report.Reasons, report.Unjudged)
	}
	d := report.Done
	if cycles != report.Cycles || d.Terms != 1 || d.Kills != 1 || d.Checked == 0 || d.Streams == 0 || d.Viewers == 0 ||
		d.Movies == 0 || d.HTTP2 == 0 || d.Followed == 0 ||
		d.Files == 0 || d.Puts == 0 || d.Gets == 0 {
		t.Errorf("%d cycles, %+v", cycles, report)
	}
	if s := report.Servers; len(s) != 1 || s[0].Used.Allocated == 0 || !slices.Equal(s[0].Judged, []int{0, 0, minTrend}) {
		t.Errorf("%+v", s)
	}
}

// A run that is interrupted tells what was seen, and what was not. It has not failed, nor passed.
func TestInterruption(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	report, err := Run(ctx, small(t, ""), func(p Progress) {
		if p.Cycle != nil && p.Cycle.Number == 1 {
			cancel()
		}
	})
	unjudged := strings.Join(report.Unjudged, "\n")
	if err != nil || !report.Interrupted || report.Verdict != Unjudged || len(report.Reasons) > 0 || report.Cycles != 1 ||
		!strings.Contains(unjudged, "interrupted after ") ||
		!strings.Contains(unjudged, "server directory: too short to judge drift: 1 of 8 quiet points") {
		t.Errorf("%v, %+v", err, report)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"--for":      func(c *Config) { c.For = time.Second },
		"--streams":  func(c *Config) { c.Streams = 0 },
		"--viewers":  func(c *Config) { c.Viewers = maxViewers + 1 },
		"--rate":     func(c *Config) { c.Rate = 1 },
		"--redis":    func(c *Config) { c.Redis = "http://secret@127.0.0.1" },
		"no program": func(c *Config) { c.Program = nil },
	} {
		cfg := Defaults()
		cfg.Program = []string{"/nowhere/to/be/found"}
		change(&cfg)
		_, err := Run(t.Context(), cfg, nil)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", says, err)
		}
	}
	cfg := Defaults()
	cfg.Program = []string{"/nowhere/to/be/found"}
	if _, err := Run(t.Context(), cfg, nil); err == nil {
		t.Error("a program that is not there was started")
	}
}
