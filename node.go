package windsock

import "strings"

// A node is a machine on which a provider's other things run: a deployment with one
// instance, the machine. Theirs are the metadata "host" of all that runs there.

// NodePrefix is how the ids of nodes begin, which their providers give them.
const NodePrefix = "node:"

// HostKey is the key of the metadata that say on which machine an instance runs.
const HostKey = "host"

// NodeAnswers is the word for a machine of which no more is known than that it answers.
const NodeAnswers = "answers"

// NodeID is the provider's id of a node, of the deployment and of its instance.
func NodeID(host string) string { return NodePrefix + host }

// NodeHost is the machine that has such an id, if it is one.
func NodeHost(id string) (host string, ok bool) { return strings.CutPrefix(id, NodePrefix) }

// Node shows a machine. The state is the instance's. That has no name, as who says something by
// the name of a machine may mean a service there; who means the machine names its id, or all that
// have it as metadata.
func Node(host, pool string, state State, raw, reason string) (deployment, instance Sighting) {
	id := NodeID(host)
	deployment = Sighting{Subject: Subject{Kind: KindDeployment, ID: id}, Description: Description{Name: host, Pool: pool}}
	instance = Sighting{
		Subject: Subject{Kind: KindInstance, ID: id}, State: state, Raw: raw, Reason: reason,
		Description: Description{Deployment: id, Metadata: map[string]string{HostKey: host}},
	}
	return deployment, instance
}
