package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v4"
)

// AgentInstallCmd is "windsock agent install".
type AgentInstallCmd struct {
	agentSettings
	Print     bool   `help:"Print user data for cloud-init." xor:"what" required:""`
	Unit      bool   `help:"Print the systemd unit alone." xor:"what" required:""`
	Token     string `help:"The token, to be put into the user data; or --token-file, to be read here." placeholder:"TOKEN" env:"WINDSOCK_TOKEN"`
	Binary    string `help:"Where windsock is on the instance (default ${default})." placeholder:"FILE" default:"/usr/local/bin/windsock"`
	BinaryURL string `name:"binary-url" help:"Where the instance gets it from; left out, its image has it." placeholder:"URL"`
}

// instanceToken is where the user data put the token.
const instanceToken = "/etc/windsock/token"

// Run prints it.
func (c *AgentInstallCmd) Run(io stdio) error {
	if c.Unit {
		_, err := fmt.Fprint(io.out, c.unit(c.TokenFile))
		return err
	}
	token := c.Token
	if token == "" {
		text, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return err
		}
		token = string(text)
	}
	if token = strings.TrimSpace(token); token == "" {
		return errors.New("the token is empty")
	}
	data, err := c.userData(token)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(io.out, data)
	return err
}

// unit is the agent as a service. What components start belongs to them: it goes on when
// the agent ends (KillMode), which ends what is under way by itself.
func (c *AgentInstallCmd) unit(tokenFile string) string {
	command := []string{c.Binary, "agent", "--url", c.URL, "--instance", c.Instance, "--token-file", tokenFile}
	for _, flag := range []struct{ name, file string }{{"--ca-file", c.CAFile}, {"--cert-file", c.CertFile}, {"--key-file", c.KeyFile}} {
		if flag.file != "" {
			command = append(command, flag.name, flag.file)
		}
	}
	for i, word := range command {
		command[i] = unitWord(word)
	}
	return `[Unit]
Description=windsock agent
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=` + strings.Join(command, " ") + `
Environment=HOME=/root
StateDirectory=windsock-agent
StateDirectoryMode=0700
Restart=always
RestartSec=5
KillMode=process
TimeoutStopSec=60

[Install]
WantedBy=multi-user.target
`
}

// unitWord quotes a word as systemd.service(5) has it.
func unitWord(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(word) + `"`
}

// userData is what cloud-init does at the first boot of an instance.
func (c *AgentInstallCmd) userData(token string) (string, error) {
	type file struct {
		Path        string `yaml:"path"`
		Permissions string `yaml:"permissions"`
		Content     string `yaml:"content"`
	}
	const service = "windsock-agent.service"
	var data struct {
		WriteFiles []file     `yaml:"write_files"`
		RunCmd     [][]string `yaml:"runcmd"`
	}
	data.WriteFiles = []file{{instanceToken, "0600", token + "\n"}}
	there := *c
	for _, f := range []struct {
		name *string
		path string
	}{{&there.CAFile, "/etc/windsock/ca.pem"}, {&there.CertFile, "/etc/windsock/cert.pem"}, {&there.KeyFile, "/etc/windsock/key.pem"}} {
		if *f.name == "" {
			continue
		}
		text, err := os.ReadFile(*f.name)
		if err != nil {
			return "", err
		}
		data.WriteFiles = append(data.WriteFiles, file{f.path, "0600", string(text)})
		*f.name = f.path
	}
	data.WriteFiles = append(data.WriteFiles, file{"/etc/systemd/system/" + service, "0644", there.unit(instanceToken)})
	if c.BinaryURL != "" {
		data.RunCmd = append(data.RunCmd,
			[]string{"curl", "-fsSL", "--retry", "10", "--retry-connrefused", "-o", c.Binary, c.BinaryURL},
			[]string{"chmod", "0755", c.Binary})
	}
	data.RunCmd = append(data.RunCmd,
		[]string{"systemctl", "daemon-reload"},
		[]string{"systemctl", "enable", "--now", service})
	text, err := yaml.Marshal(data)
	return "#cloud-config\n" + string(text), err
}
