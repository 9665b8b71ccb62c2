//! Hosts: the same tool lent by every language in its native way, and hosts whose connection breaks.

use serde_json::{Value, json};
use toolgate_contract::call_event::Event;
use toolgate_contract::{
    HostCompleted, HostHello, HostInvoke, HostReport, LentTool, ListToolsRequest, call, host_report,
};

use super::driver::{pack, unpack};
use super::{Client, collect, for_each_language, languages};
use crate::support::*;

for_each_language!(a_host_goes_on_over_connections_that_break);

/// What is listed of `greet`, and what calls of it gave, the last one made by another language.
struct Greeted {
    schema: Value,
    description: String,
    outputs: Vec<String>,
    title: String,
    metadata: Vec<Value>,
    refusal: String,
}

async fn greeted(language: &str, other: &str) -> Greeted {
    let server = Server::start().await;
    let client = Client::of(language, &server).await;
    let mut greeter = client.begin("greeter", json!({}));
    let ready = greeter.until("ready").await.unwrap();
    assert_eq!(ready["refused"], json!([]), "{language}");
    let listed = server
        .tools()
        .list_tools(ListToolsRequest::default())
        .await
        .unwrap()
        .into_inner()
        .tools;
    let greet = listed
        .into_iter()
        .find(|tool| tool.name == "greet")
        .expect("`greet` is lent");
    let mut outputs = Vec::new();
    let other = Client::of(other, &server).await;
    for (caller, input) in [
        (&client, json!({"name": "Ada", "times": 3})),
        (&other, json!({"name": "Grace é"})),
    ] {
        let (events, ending) = collect(&mut caller.execute(&request("greet", input))).await;
        let call::Ending::Completed(end) = ending else {
            panic!("{language}: {ending:?}");
        };
        outputs.push((events, end));
    }
    let refused = server.run("greet", json!({"times": "many"})).await;
    client.ask("stop", json!({"command": greeter.id})).await.unwrap();
    greeter.done().await.unwrap();
    eventually("the tool is gone with its host", async || {
        let listed = server
            .tools()
            .list_tools(ListToolsRequest::default())
            .await
            .unwrap()
            .into_inner()
            .tools;
        !listed.iter().any(|tool| tool.name == "greet")
    })
    .await;
    Greeted {
        schema: serde_json::from_str(&greet.input_schema_json).unwrap(),
        description: greet.description,
        title: outputs[0].1.title.clone(),
        metadata: outputs
            .iter()
            .map(|(_, end)| json_of(end.metadata.as_ref().unwrap()))
            .collect(),
        outputs: outputs.into_iter().map(|(_, end)| end.output).collect(),
        refusal: failed(&refused).error.clone(),
    }
}

#[test]
fn the_same_tool_is_the_same_in_every_language() {
    test(async {
        let languages = languages();
        for (index, language) in languages.iter().copied().enumerate() {
            let other = languages[(index + 1) % languages.len()];
            let greeted = greeted(language, other).await;
            assert_eq!(greeted.description, "Greets somebody.", "{language}");
            assert_eq!(
                greeted.outputs,
                ["Hello, Ada!\nHello, Ada!\nHello, Ada!", "Hello, Grace é!"],
                "{language}"
            );
            assert_eq!(greeted.title, "Greeting Ada", "{language}");
            assert_eq!(greeted.metadata[0]["greeted"], json!(3.0), "{language}");
            assert_eq!(greeted.metadata[1]["greeted"], json!(1.0), "{language}");
            let schema = &greeted.schema;
            assert_eq!(schema["type"], "object", "{language}: {schema}");
            assert_eq!(schema["required"], json!(["name"]), "{language}: {schema}");
            let properties = &schema["properties"];
            assert_eq!(properties["name"]["type"], "string", "{language}: {schema}");
            assert_eq!(
                properties["name"]["description"], "Who is greeted.",
                "{language}: {schema}"
            );
            assert_eq!(properties["times"]["type"], "integer", "{language}: {schema}");
            assert_eq!(properties["times"]["default"], json!(1), "{language}: {schema}");
            assert_eq!(properties["times"]["description"], "How often.", "{language}: {schema}");
            assert!(greeted.refusal.contains("times"), "{language}: {}", greeted.refusal);
        }
    });
}

async fn a_host_goes_on_over_connections_that_break(language: &str) {
    let server = Server::with(Setup::tcp()).await;
    let shaky = Shaky::before(server.tcp.as_ref().unwrap(), Random::new(10)).await;
    let client = Client::to(language, &format!("http://{}", shaky.address)).await;
    let tool = LentTool {
        name: "slow".to_owned(),
        description: "Waits for the test.".to_owned(),
        input_schema_json: json!({"type": "object", "properties": {"number": {"type": "integer"}}}).to_string(),
        ..LentTool::default()
    };
    let hello = HostHello {
        name: "shaky".to_owned(),
        tools: vec![tool],
        ..HostHello::default()
    };
    let mut host = client.begin("host", json!({"hello": pack(&hello)}));
    host.until("ready").await.unwrap();
    for number in 0..30 {
        let mut call = client.execute(&kept(
            &format!("call-{number}"),
            request("slow", json!({"number": number})),
        ));
        let invoke: HostInvoke = unpack(&host.until("invoke").await.unwrap()).unwrap();
        assert_eq!(
            invoke.input_json,
            json!({"number": number}).to_string(),
            "{language}: each is invoked once"
        );
        let report = |report| {
            json!({"host": host.id, "report": pack(&HostReport {
                invocation_id: invoke.invocation_id.clone(),
                report: Some(report),
            })})
        };
        let completed = host_report::Report::Completed(HostCompleted {
            output: Some(format!("result {number}")),
            ..HostCompleted::default()
        });
        client.driver.ask("report", report(completed)).await.unwrap();
        let (events, ending) = collect(&mut call).await;
        check_log(0, &events);
        assert!(
            events
                .iter()
                .any(|event| matches!(event.event, Some(Event::Running(_))))
        );
        let call::Ending::Completed(end) = ending else {
            panic!("{language}: {ending:?}");
        };
        assert_eq!(end.output, format!("result {number}"), "{language}");
    }
    assert!(shaky.cuts() > 3, "only {} connections were cut", shaky.cuts());
}
