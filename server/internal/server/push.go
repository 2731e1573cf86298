package server

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/push"
)

// openPush returns a Pusher with the routes of cfg, and sets streams.Push. The Pusher also sends
// streams to the URLs that the hook or the operator names.
func openPush(cfg *Config, streams *live.Config) (*push.Pusher, error) {
	trust, err := loadCA(cfg.PushCA)
	if err != nil {
		return nil, fmt.Errorf("--push-ca: %w", err)
	}
	keys, err := loadPushKeys(cfg.PushKeys)
	if err != nil {
		return nil, fmt.Errorf("--push-keys: %w", err)
	}
	p, err := push.New(push.Config{
		Routes: cfg.Push, TLS: trust, Dial: cfg.Dial, Log: cfg.Log, Unsent: cfg.Unsent,
		Retries:   cfg.PushRetries,
		ChunkSize: min(cfg.MaxTag(), rtmp.MaxAnnounced),
		Program:   strings.TrimSuffix("millrace/"+cfg.Version, "/"),
		Secret: func(word string) (string, bool) {
			if key, ok := keys[word]; ok {
				return key, true
			}
			return os.LookupEnv(PushVariable + strings.ToUpper(word))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("--push: %w: a key WORD is in the file of --push-keys, or in $%sWORD", err,
			PushVariable)
	}
	for _, r := range cfg.Push {
		if r.HasKey() {
			cfg.Log.Warn("--push has a key, which the list of processes shows: put {WORD} in its place, " +
				"and WORD=KEY in the file of --push-keys")
		}
	}
	streams.Push = p.Push
	return p, nil
}

// PushVariable begins the names of environment variables with the keys of pushed streams.
const PushVariable = "MILLRACE_PUSH_KEY_"

// loadPushKeys reads a file with a line WORD=KEY for each key. Empty lines and lines that begin
// with # are ignored. If name is "", the result is nil. An error does not contain a key.
func loadPushKeys(name string) (map[string]string, error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	keys := make(map[string]string)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		word, key, ok := strings.Cut(line, "=")
		if word, key = strings.TrimSpace(word), strings.TrimSpace(key); !ok || word == "" || key == "" {
			return nil, fmt.Errorf("%s:%d: want WORD=KEY", name, n)
		}
		keys[word] = key
	}
	return keys, lines.Err()
}
