// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command reference writes docs/reference/api.md: what the CRD says of each field, and worked cases that the code of
// the operator computes.
package main

import (
	"fmt"
	"os"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: %s CRD PAGE", os.Args[0]))
	}
	content, err := os.ReadFile(os.Args[1])
	if err != nil {
		fail(err)
	}
	text, err := page(content)
	if err != nil {
		fail(err)
	}
	if err := os.WriteFile(os.Args[2], []byte(text), 0o600); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

const introduction = `# API

The fields of a ScaledJob, ` + "`batch.miracle.dev/v1`" + `. ` + "`kubectl explain sjob.spec.redis`" + ` shows the same text. The page is generated from the CRD.
[Choose a strategy](../how-to/choose-a-strategy.md) helps with the keys and the strategy, and [Redis](../how-to/redis.md) with the server.
[Jobs of a ScaledJob](jobs.md) says what the operator makes of ` + "`jobTemplate`" + `, and [Conditions and events](conditions.md) what the conditions mean.

` + "```yaml" + `
apiVersion: batch.miracle.dev/v1
kind: ScaledJob
metadata:
  name: emails
spec:
  queueName: emails
  redisAddress: redis.default.svc.cluster.local:6379
  threshold: 1
  jobTemplate:
    spec:
      template:
        spec:
          containers:
          - name: worker
            image: example/worker:1
` + "```" + `

`

// page returns the text of the page.
func page(crd []byte) (string, error) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(crd, &definition); err != nil {
		return "", err
	}
	version := definition.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	var text strings.Builder
	text.WriteString(introduction)
	writeRules(&text, "The API server checks:\n\n", schema.XValidations)
	for _, name := range []string{"spec", "status"} {
		part := schema.Properties[name]
		writeObjects(&text, object{name, part})
		if name == "spec" {
			writeCases(&text)
		}
	}
	writeColumns(&text, version.AdditionalPrinterColumns)
	return strings.TrimRight(text.String(), "\n") + "\n", nil
}

// writeColumns writes the table of the columns that kubectl get shows.
func writeColumns(text *strings.Builder, columns []apiextensionsv1.CustomResourceColumnDefinition) {
	text.WriteString("## Columns of kubectl get\n\n| column | only with `-o wide` | content |\n|---|---|---|\n")
	for _, column := range columns {
		wide := ""
		if column.Priority > 0 {
			wide = "yes"
		}
		fmt.Fprintf(text, "| `%s` | %s | %s |\n", strings.ToUpper(column.Name), wide, column.Description)
	}
}
