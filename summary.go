package windsock

// A ModelSummary counts what there is, for those who look at all of it at once.
type ModelSummary struct {
	Seq         int64          `json:"seq"` // it has all that the log tells up to this event
	Deployments map[State]int  `json:"deployments"`
	Instances   map[State]int  `json:"instances"`
	Drift       int            `json:"drift"` // deployments
	Stale       int            `json:"stale"` // deployments
	Pools       []Pool         `json:"pools"`
	Monitors    map[string]int `json:"monitors"` // by the state of their callbacks, as it was last kept
}
