// Shows the OpenAPI schema with Swagger UI. `validatorUrl: null`: the schema is not sent to an online validator.

window.SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  validatorUrl: null,
});
