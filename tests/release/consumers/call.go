// Makes a call by the modules as they are tagged.
package main

import (
	"context"
	"fmt"
	"log"

	toolgate "github.com/toolgate/toolgate/clients/go"
	"github.com/toolgate/toolgate/clients/go/toolgategenkit"
)

func main() {
	client, err := toolgate.NewClient("")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if _, err := toolgategenkit.New(context.Background(), client, toolgategenkit.Options{}); err != nil {
		log.Fatal(err)
	}
	result, err := client.Run(context.Background(), "bash", `{"command": "echo hello from a call", "description": "Greets"}`)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
}
