// Package hook asks a program of the operator who may publish, play and record, and tells it of
// each end.
//
//	publisher, player ──▶ Ask, Play ──▶ 16 connections at most ──▶ POST URL ──▶ Answer
//	their ends        ──▶ End       ──▶ queue ──▶ 2 goroutines ──▶ POST URL
//
// Each question is one POST of a [Request] in JSON. The caller waits for the answer, for
// Config.Timeout at most. A connection that fails and an answer of 5xx are tried again within that
// time. All other answers count; see parseAnswer.
//
// A [Play] is one answer for players in which the hook could see no difference. While one of them
// waits for the answer, or the answer is not older than it says, the others ask nothing. Players of
// HLS have no connection: their Play lasts until they have asked for nothing for a while.
//
// client.go holds the parts together: play.go has the answers that are kept, ask.go asks questions,
// ends.go delivers ends, post.go makes the POSTs of both, and request.go has the formats.
//
// # Limits
//
// So many wait for an answer (maxWaiting), so many answers are kept (maxPlays), so many ends wait
// for delivery (maxEnds), and so long is an answer (maxAnswer). Above the first two a caller gets a
// refusal; an end above the third is dropped, counted and logged.
//
// Requests contain clients' credentials. These are never logged or kept for the end; of the URL,
// only the host is.
package hook
