package relay

import (
	"context"
	"net/url"
	"time"

	"github.com/bluenviron/gortmplib"
	"github.com/bluenviron/gortmplib/pkg/message"
	"github.com/millrace-io/millrace/bench/rtmp"
	"github.com/millrace-io/millrace/internal/load"
)

// A libraryProtocol watches an RTMP server with gortmplib, so that a check does not depend on our
// own RTMP client.
type libraryProtocol struct{ *rtmp.Server }

func (l libraryProtocol) Watch(ctx context.Context, name string) (load.Subscription, error) {
	u, err := url.Parse(l.String())
	if err != nil {
		return nil, err
	}
	u.Fragment = name // gortmplib uses the fragment as the stream key
	c := &gortmplib.Client{URL: u}
	if err := c.Initialize(ctx); err != nil {
		return nil, err
	}
	return &libraryViewer{c, context.AfterFunc(ctx, c.Close)}, nil
}

// A libraryViewer rebuilds payloads from the messages that gortmplib has parsed. It skips sequence
// headers and metadata.
type libraryViewer struct {
	c    *gortmplib.Client
	stop func() bool
}

// Next implements load.Subscription. Arrival.Head is the complete payload.
func (v *libraryViewer) Next(a *load.Arrival) error {
	for {
		m, err := v.c.Read()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *message.Video:
			if m.Type != message.VideoTypeAU {
				continue
			}
			const key, inter = 1 << 4, 2 << 4
			frame, shift := byte(inter), uint32(m.PTSDelta/time.Millisecond)
			if m.IsKeyFrame {
				frame = key
			}
			head := []byte{frame | m.Codec, byte(m.Type), byte(shift >> 16), byte(shift >> 8),
				byte(shift)}
			set(a, load.Video, m.DTS, append(head, m.AU...))
			return nil
		case *message.Audio:
			if m.AACType != message.AudioAACTypeAU {
				continue
			}
			head := []byte{m.Codec<<4 | byte(m.Rate)<<2 | byte(m.Depth)<<1, byte(m.AACType)}
			if m.IsStereo {
				head[0] |= 1
			}
			set(a, load.Audio, m.DTS, append(head, m.AU...))
			return nil
		}
	}
}

func set(a *load.Arrival, kind byte, at time.Duration, payload []byte) {
	*a = load.Arrival{Kind: kind, Timestamp: uint32(at / time.Millisecond), Size: len(payload),
		Head: payload}
}

func (v *libraryViewer) Close() error {
	v.stop()
	v.c.Close()
	return nil
}
