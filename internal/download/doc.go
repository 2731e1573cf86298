// Package download fetches a file over HTTP, so that what stands at the end is the whole file of one version, or an error.
//
//	try ──▶ request, from where the last try broke off ──▶ judge ──▶ take ──▶ .part ──▶ FILE
//	 ▲                                                                 │
//	 └──────────────── backoff ◀── broken, stalled, busy ◀─────────────┘
//
// While it is fetched, FILE is called FILE.part, and FILE.part.info says which version the bytes are of: by a strong
// entity tag or a date of last change. A try asks for the bytes that are missing, on the condition that the file still
// is that version. What a server answers is believed as far as it fits what was asked and what was said before, and no
// further; and nothing that is there is thrown away before the file comes to replace it.
package download
