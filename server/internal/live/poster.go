package live

import (
	"context"
	"net/http"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// Poster appends the newest keyframe of a stream to dst as an MP4 file with one frame, without
// copying. If the stream has not begun, Poster first waits for it, as [Admission.Admit] does. The
// caller keeps ownership of dst. An error is a [refuse.Refusal] or the error of ctx.
func (a Admission) Poster(ctx context.Context, name string, dst *millrace.Chain) error {
	if err := a.hub.cfg.Memory.Admit(); err != nil {
		return err
	}
	if err := a.hub.admitted.Acquire(); err != nil {
		return err
	}
	defer a.hub.admitted.Release()
	var forms *rendition.Set
	err := a.awaitStream(ctx, name, func(s *stream) error {
		forms = s.forms
		_, err := s.format(WatchRequest{Format: rendition.MP4})
		return err
	})
	if err != nil {
		return err
	}
	if err := forms.Poster(dst); err != nil {
		return refuse.New(http.StatusNotFound, "stream %q has no picture: %v", name, err)
	}
	return nil
}
