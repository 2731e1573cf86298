// Package hook asks a program of the operator, the hook, who may publish, play and record. It
// reports to the hook when a publisher, a player or a recording ends.
//
//	publisher, player ──▶ Ask, Play ──▶ 16 connections at most ──▶ POST URL ──▶ Answer
//	their ends        ──▶ End       ──▶ queue ──▶ 2 goroutines ──▶ POST URL
//
// A question is a POST of a [Request] as JSON. The caller waits for the answer, at most for
// Config.Timeout. Within that time, the question is sent again if the connection fails or the
// status is 5xx. Any other response is final; see parseAnswer.
//
// A [Play] is one answer for all players that look the same to the hook. If another such player
// comes while the request is in progress or the answer is valid, the hook is not asked again. HLS
// players have no connection, so their Play ends when they have sent no requests for a while.
//
// client.go connects the parts: play.go keeps answers, ask.go asks questions, ends.go delivers end
// events, post.go sends the requests of both, and request.go defines the formats.
//
// # Limits
//
// There are limits for the number of callers that wait for an answer (maxWaiting), the number of
// answers that are kept (maxPlays), the number of end events that wait for delivery (maxEnds), and
// the size of an answer (maxAnswer). If one of the first two limits is reached, a new caller is
// refused. If the third is reached, a new end event is dropped, counted and logged.
//
// Requests contain clients' credentials. The credentials are never logged, and not kept for the end
// event. Of the hook's URL, only the host is logged.
package hook
