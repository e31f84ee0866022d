package components

import "strings"

// Class is what a type of resource is to us.
type Class string

// The classes.
const (
	Foreign         Class = ""                 // the cloud makes it, and we do not
	Server          Class = "server"           // an instance takes its place
	Config          Class = "config"           // what is to be run
	Lifecycle       Class = "lifecycle"        // a config for each action (SoftwareComponent)
	Deployment      Class = "deployment"       // a config on a server
	DeploymentGroup Class = "deployment_group" // a config on each of some servers
	Condition       Class = "condition"        // signals are awaited
	Handle          Class = "handle"           // where to signal to a condition
	Group           Class = "group"            // one resource many times
	Value           Class = "value"
	Random          Class = "random"
	None            Class = "none"
	Nested          Class = "nested" // another template, in a file sent along
)

// A Type is what we know of a type of resource.
type Type struct {
	Class      Class
	Structured bool // its config is a structure, in which get_input stands
	Properties map[string]Property
	Attributes []string // that it has beside what its config declares
}

// A Property is what a type wants to be given.
type Property struct {
	Kind     Kind
	Required bool
	Min, Max int64    // of a number, or of the items of a list; 0: no such bound
	Allowed  []string // nil: anything
}

// Kind is a kind of value.
type Kind string

// The kinds, as Heat names the types of parameters. A number may be written as text, and
// text as a number, as in Heat.
const (
	Text    Kind = ""
	Number  Kind = "number"
	Integer Kind = "integer"
	Boolean Kind = "boolean"
	List    Kind = "list"
	Map     Kind = "map"
	Any     Kind = "any"
)

// TypeOf returns what we know of a type by its name: a Foreign one without properties if
// that is nothing.
func TypeOf(name string) Type {
	if t, ok := types[name]; ok {
		return t
	}
	if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".template") {
		return Type{Class: Nested}
	}
	return Type{}
}

// MaxTimeout is how many seconds a condition may be awaited.
const MaxTimeout = 43200

var (
	deploymentActions = []string{"CREATE", "UPDATE", "DELETE", "SUSPEND", "RESUME"}
	transports        = []string{"CFN_SIGNAL", "TEMP_URL_SIGNAL", "HEAT_SIGNAL", "NO_SIGNAL", "ZAQAR_SIGNAL"}
	handleTransports  = append([]string{"TOKEN_SIGNAL"}, transports...)
	deployAttributes  = []string{"deploy_stdout", "deploy_stderr", "deploy_status_code"}
	groupAttributes   = []string{"deploy_stdouts", "deploy_stderrs", "deploy_status_codes"}
)

// types are those we know, as Heat's wallaby has them. What the cloud does with a
// property of a server is its own business, so that none is required.
var types = map[string]Type{
	"OS::Nova::Server": {
		Class: Server,
		Properties: map[string]Property{
			"name": {}, "image": {}, "flavor": {}, "flavor_update_policy": {}, "image_update_policy": {},
			"block_device_mapping": {Kind: List}, "block_device_mapping_v2": {Kind: List},
			"key_name": {}, "admin_user": {}, "availability_zone": {}, "security_groups": {Kind: List},
			"networks": {Kind: List}, "scheduler_hints": {Kind: Map}, "metadata": {Kind: Map},
			"user_data": {}, "user_data_format": {}, "user_data_update_policy": {}, "software_config_transport": {},
			"reservation_id": {}, "config_drive": {Kind: Boolean}, "diskConfig": {}, "personality": {Kind: Map},
			"admin_pass": {}, "tags": {Kind: List}, "deployment_swift_data": {Kind: Map},
		},
		Attributes: []string{"name", "addresses", "networks", "first_address", "instance_name",
			"accessIPv4", "accessIPv6", "console_urls", "tags", "os_collect_config"},
	},
	"OS::Heat::DeployedServer": {
		Class: Server,
		Properties: map[string]Property{
			"name": {}, "software_config_transport": {}, "deployment_swift_data": {Kind: Map}, "metadata": {Kind: Map},
		},
		Attributes: []string{"name", "os_collect_config"},
	},
	"OS::Heat::SoftwareConfig": {
		Class: Config,
		Properties: map[string]Property{
			"group": {}, "config": {}, "options": {Kind: Map}, "inputs": {Kind: List}, "outputs": {Kind: List},
		},
		Attributes: []string{"config"},
	},
	"OS::Heat::StructuredConfig": {
		Class:      Config,
		Structured: true,
		Properties: map[string]Property{
			"group": {}, "config": {Kind: Any}, "options": {Kind: Map}, "inputs": {Kind: List}, "outputs": {Kind: List},
		},
		Attributes: []string{"config"},
	},
	"OS::Heat::SoftwareComponent": {
		Class: Lifecycle,
		Properties: map[string]Property{
			"configs": {Kind: List, Required: true, Min: 1}, "options": {Kind: Map}, "inputs": {Kind: List}, "outputs": {Kind: List},
		},
		Attributes: []string{"config"},
	},
	"OS::Heat::SoftwareDeployment":        {Class: Deployment, Properties: deployment(false, false), Attributes: deployAttributes},
	"OS::Heat::StructuredDeployment":      {Class: Deployment, Structured: true, Properties: deployment(false, true), Attributes: deployAttributes},
	"OS::Heat::SoftwareDeploymentGroup":   {Class: DeploymentGroup, Properties: deployment(true, false), Attributes: groupAttributes},
	"OS::Heat::SoftwareDeployments":       {Class: DeploymentGroup, Properties: deployment(true, false), Attributes: groupAttributes},
	"OS::Heat::StructuredDeploymentGroup": {Class: DeploymentGroup, Structured: true, Properties: deployment(true, true), Attributes: groupAttributes},
	"OS::Heat::StructuredDeployments":     {Class: DeploymentGroup, Structured: true, Properties: deployment(true, true), Attributes: groupAttributes},
	"OS::Heat::WaitCondition": {
		Class: Condition,
		Properties: map[string]Property{
			"handle": {Required: true}, "timeout": {Kind: Number, Required: true, Min: 1, Max: MaxTimeout}, "count": {Kind: Integer, Min: 1},
		},
		Attributes: []string{"data"},
	},
	"OS::Heat::SwiftSignal": {
		Class: Condition,
		Properties: map[string]Property{
			"handle": {Required: true}, "timeout": {Kind: Number, Required: true, Min: 1, Max: MaxTimeout}, "count": {Kind: Integer, Min: 1, Max: 1000},
		},
		Attributes: []string{"data"},
	},
	"AWS::CloudFormation::WaitCondition": {
		Class: Condition,
		Properties: map[string]Property{
			"Handle": {Required: true}, "Timeout": {Kind: Integer, Required: true, Min: 1, Max: MaxTimeout}, "Count": {Kind: Integer, Min: 1},
		},
		Attributes: []string{"Data"},
	},
	"OS::Heat::WaitConditionHandle": {
		Class:      Handle,
		Properties: map[string]Property{"signal_transport": {Allowed: handleTransports}},
		Attributes: []string{"token", "endpoint", "curl_cli", "signal"},
	},
	"OS::Heat::SwiftSignalHandle":              {Class: Handle, Attributes: []string{"token", "endpoint", "curl_cli"}},
	"AWS::CloudFormation::WaitConditionHandle": {Class: Handle},
	"OS::Heat::UpdateWaitConditionHandle":      {Class: Handle}, // of CloudFormation, too
	"OS::Heat::ResourceGroup": {
		Class: Group,
		Properties: map[string]Property{
			"count": {Kind: Integer}, "index_var": {}, "resource_def": {Kind: Map, Required: true},
			"removal_policies": {Kind: List}, "removal_policies_mode": {Allowed: []string{"append", "update"}},
		},
		Attributes: []string{"refs", "refs_map", "attributes", "removed_rsrc_list"}, // and resource.N, and those of its members
	},
	"OS::Heat::Value": {
		Class: Value,
		Properties: map[string]Property{
			"value": {Kind: Any, Required: true}, "type": {Allowed: []string{"string", "number", "comma_delimited_list", "json", "boolean"}},
		},
		Attributes: []string{"value"},
	},
	"OS::Heat::RandomString": {
		Class: Random,
		Properties: map[string]Property{
			"length": {Kind: Integer, Min: 1, Max: 512}, "character_classes": {Kind: List}, "character_sequences": {Kind: List}, "salt": {},
			"sequence": {Allowed: []string{"lettersdigits", "letters", "lowercase", "uppercase", "digits", "hexdigits", "octdigits"}},
		},
		Attributes: []string{"value"},
	},
	"OS::Heat::None": {Class: None}, // it has whatever properties and attributes
}

// deployment returns the properties of deployments: of one on many servers, and of one
// whose config is a structure.
func deployment(group, structured bool) map[string]Property {
	p := map[string]Property{
		"config": {}, "input_values": {Kind: Map}, "name": {},
		"actions":          {Kind: List, Allowed: deploymentActions},
		"signal_transport": {Allowed: transports},
	}
	if group {
		p["servers"] = Property{Kind: Map, Required: true}
	} else {
		p["server"] = Property{Required: true}
	}
	if structured {
		p["input_key"] = Property{}
		p["input_values_validate"] = Property{Allowed: []string{"LAX", "STRICT"}}
	}
	return p
}
