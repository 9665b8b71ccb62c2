package io.toolgate.langchain4j;

import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.data.message.AudioContent;
import dev.langchain4j.data.message.Content;
import dev.langchain4j.data.message.ImageContent;
import dev.langchain4j.data.message.PdfFileContent;
import dev.langchain4j.data.message.TextContent;
import dev.langchain4j.invocation.InvocationContext;
import dev.langchain4j.service.tool.ToolExecutionResult;
import dev.langchain4j.service.tool.ToolExecutor;
import io.toolgate.CallResult;
import io.toolgate.v1.Attachment;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiFunction;

/** Gives LangChain4j the results of calls in its form. */
final class ToolgateExecutor implements ToolExecutor {
    private final BiFunction<ToolExecutionRequest, InvocationContext, CallResult> run;
    private final boolean files;

    ToolgateExecutor(BiFunction<ToolExecutionRequest, InvocationContext, CallResult> run, boolean files) {
        this.run = run;
        this.files = files;
    }

    @Override
    public String execute(ToolExecutionRequest request, Object memoryId) {
        InvocationContext context =
                InvocationContext.builder().chatMemoryId(memoryId).build();
        return run.apply(request, context).text();
    }

    @Override
    public ToolExecutionResult executeWithContext(ToolExecutionRequest request, InvocationContext context) {
        CallResult result = run.apply(request, context);
        return ToolExecutionResult.builder()
                .isError(!result.ok())
                .result(result)
                .resultContents(contents(result))
                // Kept with the message, and not sent to the model.
                .attributes(Map.of("toolgate.callId", result.callId()))
                .build();
    }

    private List<Content> contents(CallResult result) {
        List<Content> contents = new ArrayList<>();
        contents.add(TextContent.from(result.text()));
        if (files) {
            result.attachments().forEach(attachment -> content(attachment).ifPresent(contents::add));
        }
        return contents;
    }

    /** Returns what models may be shown of a file; empty for what has no form in LangChain4j. */
    private static Optional<Content> content(Attachment attachment) {
        String mime = attachment.getMime();
        boolean linked = attachment.hasUrl();
        String url = attachment.getUrl();
        String data = Base64.getEncoder().encodeToString(attachment.getData().toByteArray());
        if (mime.startsWith("image/")) {
            return Optional.of(linked ? ImageContent.from(url) : ImageContent.from(data, mime));
        }
        if (mime.startsWith("audio/")) {
            return Optional.of(linked ? AudioContent.from(url) : AudioContent.from(data, mime));
        }
        if (mime.equals("application/pdf")) {
            return Optional.of(linked ? PdfFileContent.from(url) : PdfFileContent.from(data, mime));
        }
        return Optional.empty();
    }
}
