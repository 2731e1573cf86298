package load

import (
	"errors"
	"fmt"
	"strings"
)

// failure returns an error if the load was not as requested. This happens if a publisher failed or
// was not accepted in time, if no viewer received anything, or if all viewers ended early. Lost
// tags are not an error.
func (rep *Report) failure() error {
	p, v := &rep.Publishers, &rep.Viewers
	failed := 0
	for _, n := range p.Ended {
		failed += n
	}
	switch {
	case failed > 0 && p.Connected == 0:
		return fmt.Errorf("load: no publisher reached %s: %w", rep.Target,
			mainReason(p.Ended, meaningPublish))
	case failed > 0 && failed == p.Wanted && rep.EndedEarly:
		return fmt.Errorf("load: every publisher ended before the load did: %w",
			mainReason(p.Ended, meaningPublish))
	case failed > 0:
		return fmt.Errorf(
			"load: %d of %d publishers failed, so this is not the load that was asked for: %w",
			failed, p.Wanted, mainReason(p.Ended, meaningPublish))
	case rep.Interrupted:
		return nil
	case !rep.EndedEarly && p.Connected < p.Wanted:
		return fmt.Errorf("load: %d of %d publishers had no answer from %s in time",
			p.Wanted-p.Connected, p.Wanted, rep.Target)
	case v.Wanted > 0 && v.Connected == 0:
		return fmt.Errorf("load: no viewer had an answer from %s: %w", rep.Target,
			mainReason(v.Ended, meaningWatch))
	case v.Wanted > 0 && v.Tags == 0:
		return fmt.Errorf("load: no viewer got anything from %s: %w", rep.Target,
			mainReason(v.Ended, meaningWatch))
	case rep.EndedEarly && v.Wanted > 0:
		return fmt.Errorf("load: every viewer ended before the load did: %w",
			mainReason(v.Ended, meaningWatch))
	case rep.EndedEarly:
		return fmt.Errorf("load: every viewer ended before the load did: %w",
			mainReason(rep.Stalled.Ended, meaningWatch))
	}
	return nil
}

// meaningPublish and meaningWatch explain HTTP status codes. The explanation for the key "" applies
// if no connection has ended, because all clients still wait for an answer.
var (
	meaningPublish = map[string]string{
		"401": "the server wants --token",
		"403": "wrong --token, or a server that takes no streams from here",
		"409": "another publisher has this name: choose another with --name, or watch theirs with --no-publish",
		"503": "the server has as many streams as it may, or shuts down",
	}
	meaningWatch = map[string]string{
		"":    "they still wait for the stream: it has no publisher",
		"404": "the stream has no publisher",
		"503": "the server has as many viewers as it may, or shuts down",
	}
)

// mainReason returns an error with the most frequent reason in counts, and the explanation of its
// status code. If counts is empty, the error is explanations[""].
func mainReason(counts map[string]int, explanations map[string]string) error {
	best, most := "", 0
	for why, n := range counts {
		if n > most || n == most && why < best {
			best, most = why, n
		}
	}
	if most == 0 {
		return errors.New(explanations[""])
	}
	code, _, _ := strings.Cut(strings.TrimPrefix(best, refusedPrefix), " ")
	if text := explanations[code]; text != "" && strings.HasPrefix(best, refusedPrefix) {
		best += " (" + text + ")"
	}
	return errors.New(best)
}
