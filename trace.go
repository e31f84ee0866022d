package windsock

// A Trace says of which request, in a trace of requests through several systems, something
// came: as the headers of W3C Trace Context do, and as the log and callbacks show it. Zero:
// of none that anybody named.
type Trace struct {
	TraceParent string `json:"traceparent,omitempty"`
	TraceState  string `json:"tracestate,omitempty"`
}
