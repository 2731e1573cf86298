package chunk

import (
	"crypto/tls"
	"net"
	"net/http"
	"reflect"
	"sync/atomic"
)

// A serverResponse is the response of net/http's HTTP/1 server that a body goes to in the end, or none.
//
// Such a response refuses a Write that its Content-Length has no room for. Its ReadFrom hands the connection to the
// source, and only counts: what goes beyond the Content-Length would be the next response of that connection. So the
// source must know how much there is room for, whoever has written the header and whatever was sent before. The response
// knows that, in fields that no method tells. If net/http has other fields one day, all bodies go through Write.
type serverResponse struct {
	w      http.ResponseWriter
	fields *responseFields // nil if there is none
}

// responseFields says where net/http's response keeps the state of its body.
type responseFields struct {
	of            reflect.Type
	wroteHeader   int // bool: the header is settled
	contentLength int // int64: what it says, or -1
	written       int // int64: bytes of the body, those that were refused among them

	conn int // *conn, or -1: not needed to know how long the body is
	rwc  int // net.Conn, of conn
}

// knownFields are those that were found last. There is one such type.
var knownFields atomic.Pointer[responseFields]

// serverResponseOf returns w, if it is one.
func serverResponseOf(w http.ResponseWriter) serverResponse {
	t := reflect.TypeOf(w)
	f := knownFields.Load()
	if f == nil || f.of != t {
		if f = fieldsOf(t); f == nil {
			return serverResponse{}
		}
		knownFields.Store(f)
	}
	return serverResponse{w: w, fields: f}
}

// fieldsOf returns where a response of type t keeps its state, or nil if t is another type.
func fieldsOf(t reflect.Type) *responseFields {
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().PkgPath() != "net/http" || t.Elem().Name() != "response" {
		return nil
	}
	f := &responseFields{of: t}
	for _, field := range []struct {
		name  string
		kind  reflect.Kind
		index *int
	}{
		{"wroteHeader", reflect.Bool, &f.wroteHeader},
		{"contentLength", reflect.Int64, &f.contentLength},
		{"written", reflect.Int64, &f.written},
	} {
		found, ok := t.Elem().FieldByName(field.name)
		if !ok || len(found.Index) != 1 || found.Type.Kind() != field.kind {
			return nil
		}
		*field.index = found.Index[0]
	}
	f.findConn()
	return f
}

// findConn finds where a response has its connection.
func (f *responseFields) findConn() {
	f.conn = -1
	conn, ok := f.of.Elem().FieldByName("conn")
	if !ok || len(conn.Index) != 1 || conn.Type.Kind() != reflect.Pointer || conn.Type.Elem().Kind() != reflect.Struct {
		return
	}
	rwc, ok := conn.Type.Elem().FieldByName("rwc")
	if !ok || len(rwc.Index) != 1 || rwc.Type != reflect.TypeFor[net.Conn]() {
		return
	}
	f.conn, f.rwc = conn.Index[0], rwc.Index[0]
}

// isKnown reports whether there is such a response.
func (s serverResponse) isKnown() bool { return s.fields != nil }

// hasHeader reports whether the header is known to be settled: no change of it has an effect any more.
func (s serverResponse) hasHeader() bool {
	return s.isKnown() && reflect.ValueOf(s.w).Elem().Field(s.fields.wroteHeader).Bool()
}

// room returns how many bytes the body may still have. It is toEOF if the header has no length, which is certain when
// it is settled, or if there is no response.
func (s serverResponse) room() int64 {
	if !s.isKnown() {
		return toEOF
	}
	v := reflect.ValueOf(s.w).Elem()
	length := v.Field(s.fields.contentLength).Int()
	if length < 0 {
		return toEOF
	}
	return max(length-v.Field(s.fields.written).Int(), 0)
}

// conn returns the connection that the response itself goes to, if it is known to be one of these two.
func (s serverResponse) conn() (tcp *net.TCPConn, own *Conn) {
	// An interface from a field that is not exported does not leave a reflect.Value. A pointer does.
	switch rwc := s.rwc(); {
	case !rwc.IsValid():
	case rwc.Type() == tcpConn:
		return (*net.TCPConn)(rwc.UnsafePointer()), nil
	case rwc.Type() == ownConn:
		own = (*Conn)(rwc.UnsafePointer())
		return own.TCPConn, own
	}
	return nil, nil
}

// underTLS returns the connection that the response goes to after it has been sealed, or nil.
func (s serverResponse) underTLS() *net.TCPConn {
	rwc := s.rwc()
	if !rwc.IsValid() || rwc.Type() != tlsConn {
		return nil
	}
	tcp, _ := bare((*tls.Conn)(rwc.UnsafePointer()).NetConn()).(*net.TCPConn)
	return tcp
}

// rwc returns the connection that net/http has for the response, if it is known to have one.
func (s serverResponse) rwc() reflect.Value {
	if !s.isKnown() || s.fields.conn < 0 {
		return reflect.Value{}
	}
	conn := reflect.ValueOf(s.w).Elem().Field(s.fields.conn)
	if conn.IsNil() {
		return reflect.Value{}
	}
	return conn.Elem().Field(s.fields.rwc).Elem()
}

// isOnTCP reports whether the response is known to go to a TCP connection itself.
func (s serverResponse) isOnTCP() bool {
	tcp, _ := s.conn()
	return tcp != nil
}

var (
	tcpConn = reflect.TypeFor[*net.TCPConn]()
	ownConn = reflect.TypeFor[*Conn]()
	tlsConn = reflect.TypeFor[*tls.Conn]()
)
