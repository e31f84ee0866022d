package windsock

import _ "embed"

// Contract is openapi.yaml, which the service shows as it is.
//
//go:embed openapi.yaml
var Contract []byte
