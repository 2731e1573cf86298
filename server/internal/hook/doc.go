// Package hook asks a program of the operator, the hook, who may publish, play and record. It also
// reports to the hook that a publisher, a player or a recording has ended.
//
//	client starts ──▶ Ask, Play ──▶ 16 connections at most ──▶ POST URL ──▶ Answer
//	client ends   ──▶ End       ──▶ queue ──▶ 2 goroutines ──▶ POST URL
//
// A question is a [Request] that is sent as JSON in a POST. The caller waits for the answer, but
// not longer than Config.Timeout. Within that time, the question is sent again if the connection
// fails or the response has status 5xx. Any other response is final; see parseAnswer.
//
// A [Play] is the answer for players with equal requests. While the request for the first player is
// in progress or its answer is valid, further players get the same answer, and the hook is not
// asked again. HLS players have no connection, so their Play ends when they have sent no request
// for a while.
//
// The file client.go defines the Client, which uses the other files: play.go stores answers, ask.go
// asks questions, ends.go delivers end events, post.go sends the HTTP requests, and request.go
// defines the formats.
//
// # Limits
//
// The following are limited: the callers that wait for an answer (maxWaiting), the stored answers
// (maxPlays), the queued end events (maxEnds), and the size of an answer (maxAnswer). If one of the
// first two limits is reached, a new caller is refused. If the third limit is reached, a new end
// event is dropped, counted and logged.
//
// Requests contain clients' credentials. The credentials are never logged, and not stored for the
// end event. The log contains only the host of the hook's URL.
//
// A third of the code shares and limits the answers for viewers: play.go and ask.go.
package hook
