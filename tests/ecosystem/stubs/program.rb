# Lists tools, makes a call, and approves it, with nothing but stubs that are generated from the contract:
# program.rb STUBS TARGET.
#
# Invariant: knows proto/ and gRPC only.
$LOAD_PATH.unshift(ARGV.fetch(0))
require "grpc"
require "json"
require "securerandom"
require "toolgate/v1/permission_service_services_pb"
require "toolgate/v1/tool_service_services_pb"

V1 = Toolgate::V1
tools = V1::ToolService::Stub.new(ARGV.fetch(1), :this_channel_is_insecure)
permissions = V1::PermissionService::Stub.new(ARGV.fetch(1), :this_channel_is_insecure)

listed = tools.list_tools(V1::ListToolsRequest.new).tools
bash = listed.find { |tool| tool.name == "bash" }
puts "schema: #{JSON.parse(bash.input_schema_json)["required"].sort.join(" ")}"

# The approver: what it sends is taken from a queue, so that the stream stays open until it leaves.
requests = Queue.new
sent = Enumerator.new { |stream| while (request = requests.pop) do stream << request end }
requests << V1::ChannelRequest.new(open: V1::ChannelOpen.new(name: "ruby", filter: V1::PromptFilter.new(workspace: "-", all: true)))
ready = Queue.new
approver = Thread.new do
  permissions.channel(sent).each do |response|
    case response.message
    when :snapshot_end
      ready << true
    when :prompt_added
      prompt = response.prompt_added.prompt
      puts "asked: #{prompt.permission.patterns.join(", ")}"
      reply = V1::PromptReply.new(prompt_id: prompt.prompt_id, reply_id: SecureRandom.uuid, input_digest: prompt.input_digest,
                                  decision: :PROMPT_DECISION_ONCE)
      requests << V1::ChannelRequest.new(reply: reply)
    when :reply_result
      puts "reply: #{response.reply_result.result}"
      requests << nil
      break
    end
  end
end
approver.abort_on_exception = true
ready.pop

input = JSON.generate(command: "touch made && echo done", description: "Makes a file")
events = tools.execute_tool(V1::ExecuteToolRequest.new(tool: "bash", input_json: input)).map(&:event)
approver.join
events.each do |event|
  puts "output: #{event.output.data.strip}" if event.event == :output
  puts "completed: #{event.completed.outcome}" if event.event == :completed
end

begin
  tools.get_call(V1::GetCallRequest.new(call_id: "nobody"))
rescue GRPC::NotFound => error
  puts "not found: #{error.details[/"?nobody"?/]}"
end
